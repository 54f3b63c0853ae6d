#!/usr/bin/env bash
# Installs the Debian packages that `build` or `test` needs and this machine lacks. Without root it only names them.
set -euo pipefail
python=${PYTHON:-python3}

missing=()
command -v g++ >/dev/null || missing+=(g++)
command -v ccache >/dev/null || missing+=(ccache)
"$python" -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
header=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h
[ -e "$header" ] || missing+=(python3-dev)
if [ "${1:-build}" = test ]; then
  [ -e /usr/include/gtest/gtest.h ] || missing+=(libgtest-dev)
fi

if [ ${#missing[@]} -eq 0 ]; then exit 0; fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "missing packages, by their Debian names: ${missing[*]}" >&2
  exit 0 # ccache is a convenience, and what is not fails by name where it is needed
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}"
