#pragma once

#include <benchmark/benchmark.h>

#include "backend/cuda/runtime_cuda.h"

namespace turbolstm::cuda {

// Sets the time of each iteration to that of one `enqueue`, the mean of so many recorded in one
// graph: what the host takes for launches does not count.
template <typename Enqueue>
void TimeReplays(benchmark::State& state, const Stream& stream, int times, Enqueue enqueue) {
  const RecordedGraph graph = RecordedGraph::Record(stream, [&] {
    for (int i = 0; i < times; ++i) enqueue();
  });
  Event begin, end;
  graph.Launch(stream);
  for (auto _ : state) {
    begin.Record(stream);
    graph.Launch(stream);
    end.Record(stream);
    end.Synchronize();
    state.SetIterationTime(begin.MillisecondsTo(end) * 1e-3 / times);
  }
}

}  // namespace turbolstm::cuda
