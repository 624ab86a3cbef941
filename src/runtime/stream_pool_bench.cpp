#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "runtime/stream_pool.h"

namespace turbolstm {
namespace {

using Lists = std::vector<std::vector<int32_t>>;
constexpr int kLength = 1000;  // tasks of each stream

// Streams that never wait for each other: what a task costs besides its work.
StreamProgram Independent(int streams) {
  Lists order(streams), waits(static_cast<size_t>(streams) * kLength);
  for (int task = 0; task < streams * kLength; ++task) order[task / kLength].push_back(task);
  return StreamProgram(order, waits);
}

// Each task waits for the one before it on another stream: what a handover costs.
StreamProgram Alternating(int streams) {
  Lists order(streams), waits(static_cast<size_t>(streams) * kLength);
  for (int task = 0; task < streams * kLength; ++task) {
    order[task % streams].push_back(task);
    if (task > 0 && streams > 1) waits[task].push_back(task - 1);
  }
  return StreamProgram(order, waits);
}

// Beside other programs the least of many repetitions says most.
double Least(const std::vector<double>& times) {
  return *std::min_element(times.begin(), times.end());
}

void RunProgram(benchmark::State& state, const StreamProgram& program) {
  StreamPool pool(program.streams());
  for (auto _ : state) {
    pool.Run(program, [](int32_t task, int) { benchmark::DoNotOptimize(task); });
  }
  state.counters["per_task"] = benchmark::Counter(
      program.tasks(), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void BM_IndependentTasks(benchmark::State& state) {
  RunProgram(state, Independent(static_cast<int>(state.range(0))));
}
BENCHMARK(BM_IndependentTasks)
    ->Arg(1)
    ->Arg(2)
    ->Arg(4)
    ->UseRealTime()
    ->ComputeStatistics("least", Least);

void BM_Handovers(benchmark::State& state) {
  RunProgram(state, Alternating(static_cast<int>(state.range(0))));
}
BENCHMARK(BM_Handovers)->Arg(2)->UseRealTime()->ComputeStatistics("least", Least);

// A run of one task a stream, with a pause of the caller before each: 0 finds the workers spinning,
// a millisecond finds them parked. The pause is not counted.
void BM_RunOfOneTaskEach(benchmark::State& state) {
  constexpr int kStreams = 2;
  StreamPool pool(kStreams);
  const StreamProgram program(Lists{{0}, {1}}, Lists{{}, {}});
  for (auto _ : state) {
    std::this_thread::sleep_for(std::chrono::microseconds(state.range(0)));
    const auto begin = std::chrono::steady_clock::now();
    pool.Run(program, [](int32_t task, int) { benchmark::DoNotOptimize(task); });
    state.SetIterationTime(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
}
BENCHMARK(BM_RunOfOneTaskEach)
    ->Arg(0)
    ->Arg(1000)
    ->UseManualTime()
    ->ComputeStatistics("least", Least);

}  // namespace
}  // namespace turbolstm
