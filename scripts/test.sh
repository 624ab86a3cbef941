#!/usr/bin/env bash
# All tests from a fresh clone: installs what is missing, builds, runs them.
#   scripts/test.sh [preset]     cpu (default), cpu-asan, cpu-tsan or cuda; further arguments go to ctest
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-cpu}
scripts/setup.sh
cmake --preset "$preset"
cmake --build --preset "$preset" --parallel "$(nproc)"
exec ctest --preset "$preset" --parallel "$(nproc)" "${@:2}"
