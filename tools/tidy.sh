#!/usr/bin/env bash
# clang-tidy over the C++ sources that differ from a commit: tools/tidy.sh BUILD_DIR [COMMIT]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
base=${2:-$(git merge-base HEAD '@{upstream}' 2>/dev/null || git rev-parse HEAD)}

mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- 'csrc/*.cc')
if [ ${#changed[@]} -gt 0 ]; then
  printf '%s\n' "${changed[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy -p "$build" --quiet --warnings-as-errors='*'
fi
