#!/usr/bin/env bash
# Runs compute-sanitizer's four tools over a small set of tests on a GPU; fails on any finding.
#   scripts/gpu_sanitizer.sh [build folder]     default build/cuda; its tests must have been built
# Variables: COMPUTE_SANITIZER (the program), LIMIT (seconds a process may take, 150), LOGS (a folder
# for the logs; default a new one), JOBS (processes at once, default one a core).
# What memory initcheck finds unwritten does not count what cuBLASLt stores by bulk copies, which the
# tool does not see: TURBOLSTM_CLEAR_PRODUCTS clears these results, and nothing else, beforehand.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${1:-build/cuda}
limit=${LIMIT:-150}
jobs=${JOBS:-$(nproc)}
logs=${LOGS:-$(mktemp -d)}
mkdir -p "$logs"

tool=${COMPUTE_SANITIZER:-}
for found in "$(command -v compute-sanitizer || true)" /usr/local/cuda/bin/compute-sanitizer \
  /usr/local/cuda/compute-sanitizer/compute-sanitizer; do
  if [ -z "$tool" ] && [ -x "$found" ]; then tool=$found; fi
done
if [ -z "$tool" ]; then
  echo "[sanitizer] no compute-sanitizer in PATH or /usr/local/cuda; COMPUTE_SANITIZER can name it" >&2
  exit 1
fi

# name, program below the build folder, tests. Persistent loops forward and backward, loops step by
# step (fp32, layer normalisation), steps of training, optimisers, operators, fused kernels.
tests=(
  "lstm tests/execution/cuda_acceptance_test Cells/GpuTiny.*/lstm_*"
  "gru tests/execution/cuda_acceptance_test Cells/GpuTiny.*/gru_*"
  "layer_norm tests/execution/cuda_acceptance_test Cells/GpuTiny.*/layer_norm_lstm_*"
  "training tests/train/cuda_training_test CudaSteps.TinyOnes"
  "optimisers src/optim/optim_cuda_test *OnDevice*-*ManyOfThem"
  "row_operators src/execution/execution_cuda_test OperatorsCuda.*-*32Bits*:*ManyClasses:*Finals*:*SumTime*:*InitGrad:*SumRows*:*Scatter*:*Gather*"
  "sequence_operators src/execution/execution_cuda_test *Finals*:*SumTime*:*InitGrad:*SumRows*:*Scatter*:*Gather*"
  "split_products src/ops/ops_cuda_test SplitProductOnGpu.PiecesAreThoseOfTheHost"
  "prefixes src/ops/ops_cuda_test KernelCudaTest.LongLinearLoops*"
  "fused_kernels src/ops/ops_cuda_test KernelCudaTest.TimeLoop*:KernelCudaTest.KernelsFollow*"
)

export TURBOLSTM_SMALL_TESTS=1
run() {  # name, program, filter, tool; empty: without one
  local log="$logs/$1.${4:-plain}.log" command=() code=0
  [ -z "$4" ] || command=("$tool" --tool "$4" --error-exitcode 86 --require-cuda-init no --print-limit 20)
  [ "$4" != initcheck ] || export TURBOLSTM_CLEAR_PRODUCTS=1
  timeout --kill-after 5 "$limit" "${command[@]}" "$build/$2" "--gtest_filter=$3" >"$log" 2>&1 || code=$?
  local verdict=clean
  if grep -q '\[  SKIPPED \]' "$log"; then
    verdict="skipped: $(grep -m 1 -A 1 'Skipped' "$log" | tail -n 1)"
  elif [ "$code" = 124 ] || [ "$code" = 137 ]; then
    verdict="not done within $limit s"
  elif ! grep -q '\[  PASSED  \] [1-9]' "$log"; then
    verdict="tests failed or none ran (exit code $code)"
  elif [ -n "$4" ] && ! grep -qE '(ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards)' "$log"; then
    verdict="findings: $(grep -E 'SUMMARY' "$log" | tail -n 1)"
  elif [ "$code" != 0 ]; then
    verdict="exit code $code"
  fi
  echo "$verdict" >"$logs/$1.${4:-plain}.verdict"
}

# Once without a tool: compiled kernels are then on disk for all, and what fails by itself shows.
start=$SECONDS
every() {  # tools...
  local entry which
  for which in "$@"; do
    for entry in "${tests[@]}"; do
      while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
      # shellcheck disable=SC2086  # three words
      (set -f; run $entry "${which#plain}") &
    done
  done
  wait
}
every plain
every racecheck memcheck initcheck synccheck

failed=0
printf '%-20s %-10s %s\n' tests tool result
for entry in "${tests[@]}"; do
  for which in plain memcheck racecheck initcheck synccheck; do
    name=${entry%% *}
    verdict=$(cat "$logs/$name.$which.verdict" 2>/dev/null || echo "did not run")
    printf '%-20s %-10s %s\n' "$name" "$which" "$verdict"
    [ "$verdict" = clean ] || failed=$((failed + 1))
  done
done
echo "$((${#tests[@]} * 5 - failed)) of $((${#tests[@]} * 5)) clean in $((SECONDS - start)) s; logs in $logs"
[ "$failed" -eq 0 ]
