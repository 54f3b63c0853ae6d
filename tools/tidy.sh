#!/usr/bin/env bash
# clang-tidy over the C++ sources that differ from a commit, or over all: tools/tidy.sh BUILD_DIR [COMMIT | all]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
base=${2:-$(git merge-base HEAD '@{upstream}' 2>/dev/null || git rev-parse HEAD)}

if [ "$base" = all ]; then
  mapfile -t sources < <(git ls-files 'csrc/*.cc')
else
  mapfile -t sources < <(git diff --name-only --diff-filter=d "$base" -- 'csrc/*.cc')
fi
if [ ${#sources[@]} -eq 0 ]; then exit 0; fi

# GCC's precompiled header is nothing that clang can read.
database=$(mktemp -d)
trap 'rm -rf "$database"' EXIT
sed -E 's/-Winvalid-pch|-include [^ ]*cmake_pch\.hxx//g' "$build/compile_commands.json" >"$database/compile_commands.json"
printf '%s\n' "${sources[@]}" |
  xargs -P "${JOBS:-$(nproc)}" -n 1 clang-tidy -p "$database" --quiet --warnings-as-errors='*'
