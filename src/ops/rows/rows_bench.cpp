// Operators on rows: nanoseconds per element are to be compared with those that memory takes.

#include <benchmark/benchmark.h>

#include <vector>

#include "ops/rows/random_mask.h"
#include "ops/rows/reductions.h"

namespace turbolstm {
namespace {

void CountElements(benchmark::State& state, int64_t n) {
  state.counters["ns/element"] =
      benchmark::Counter(static_cast<double>(state.iterations() * n) * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void RandomMask(benchmark::State& state) {
  const int64_t n = state.range(0);
  std::vector<float> y(static_cast<size_t>(n));
  for (auto _ : state) {
    DrawRandomMask({.seed = 1}, 0, n, 0.5, 2, y.data());
    benchmark::DoNotOptimize(y.data());
    benchmark::ClobberMemory();
  }
  CountElements(state, n);
}

void SumOfExp(benchmark::State& state) {
  const int64_t n = state.range(0);
  const std::vector<float> x(static_cast<size_t>(n), -1.0f);
  for (auto _ : state) benchmark::DoNotOptimize(SumOfExpOfRow(x.data(), n, 0));
  CountElements(state, n);
}

BENCHMARK(RandomMask)->Arg(128)->Arg(20000);
BENCHMARK(SumOfExp)->Arg(128)->Arg(20000);

}  // namespace
}  // namespace turbolstm
