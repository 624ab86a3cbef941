#!/usr/bin/env bash
# The main job from a fresh clone: installs what is missing, builds, fetches the example's data and
# trains an LSTM on it. Further arguments go to `turbolstm train`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/setup.sh
cmake --preset cpu
cmake --build --preset cpu --parallel "$(nproc)" --target turbolstm
scripts/fetch_sentiment.sh
exec build/cpu/src/cli/turbolstm train examples/sentiment/sentiment.toml --force "$@"
