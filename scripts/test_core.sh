#!/usr/bin/env bash
# The tests of the folders everything stands on, under a sanitizer by default.
#   scripts/test_core.sh [preset]     cpu-asan (default), cpu-tsan or cpu
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-cpu-asan}
cmake --preset "$preset"
labels=()
for folder in base runtime tensor backend ops graph cells plan io; do
  # A folder without tests has no such target.
  if grep -q "^build ${folder}_test:" "build/$preset/build.ninja"; then labels+=("$folder"); fi
done
cmake --build --preset "$preset" --parallel "$(nproc)" --target "${labels[@]/%/_test}"
exec ctest --preset "$preset" --parallel "$(nproc)" --label-regex "^($(IFS='|'; echo "${labels[*]}"))\$"
