#!/usr/bin/env bash
# Builds into build/ and makes this checkout importable without installing it:
#   tools/dev.sh [target...] && PYTHONPATH=$PWD .venv/bin/python -c 'import torch; torch.ones(2, device="tpu")'
# TESTS=1 also builds the C++ tests. BUILD_DIR, JOBS and PYTHON override what their names say.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-$PWD/.venv/bin/python}
build=${BUILD_DIR:-build}
PATH=$(dirname "$python"):$PATH

if [ ! -f "$build/build.ninja" ] || [ -n "${TESTS:-}" ]; then
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE="$python" \
    -DTORCHTPU_TESTS="${TESTS:+ON}" --log-level=NOTICE
fi
cmake --build "$build" -j "${JOBS:-$(nproc)}" ${1:+--target "$@"}

for extension in "$build"/_C*.so; do
  if [ -e "$extension" ]; then ln -sfn "$(realpath "$extension")" "torchtpu/$(basename "$extension")"; fi
done
# What an installed package would tell PyTorch: its entry points, read from pyproject.toml.
"$python" tools/write_dist_info.py
