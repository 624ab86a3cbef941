#include <benchmark/benchmark.h>

#include "plan/dependencies.h"
#include "plan/example_tasks.h"
#include "plan/schedule.h"
#include "plan/verify.h"

namespace turbolstm {
namespace {

// 1000 tasks each.
std::vector<Task> FewLongLayers() {
  return StackedLayers(1, 100, 2);
}
std::vector<Task> ManyTiles() {
  return StackedLayers(2, 4, 25);
}

void Derive(benchmark::State& state, const std::vector<Task>& tasks) {
  for (auto _ : state) benchmark::DoNotOptimize(DeriveDependencies(tasks));
}
BENCHMARK_CAPTURE(Derive, few_long_layers, FewLongLayers())->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Derive, many_tiles, ManyTiles())->Unit(benchmark::kMicrosecond);

void Place(benchmark::State& state, const std::vector<Task>& tasks, int streams) {
  const Dependencies dependencies = DeriveDependencies(tasks);
  Schedule schedule;
  for (auto _ : state) schedule = ListSchedule(tasks, dependencies, streams);
  double edges = 0, waits = 0;
  for (const auto& list : dependencies) edges += static_cast<double>(list.size());
  for (const auto& list : schedule.waits) waits += static_cast<double>(list.size());
  state.counters["edges"] = edges;
  state.counters["waits"] = waits;
  state.counters["estimated_us"] = 1e6 * schedule.EstimatedSeconds();
}
BENCHMARK_CAPTURE(Place, few_long_layers_1, FewLongLayers(), 1)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Place, few_long_layers_2, FewLongLayers(), 2)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Place, many_tiles_2, ManyTiles(), 2)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Place, many_tiles_16, ManyTiles(), 16)->Unit(benchmark::kMicrosecond);

void Verify(benchmark::State& state, const std::vector<Task>& tasks) {
  const Schedule schedule = ListSchedule(tasks, DeriveDependencies(tasks), 2);
  for (auto _ : state) VerifySchedule(tasks, schedule);
}
BENCHMARK_CAPTURE(Verify, few_long_layers, FewLongLayers())->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Verify, many_tiles, ManyTiles())->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace turbolstm
