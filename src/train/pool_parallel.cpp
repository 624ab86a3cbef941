#include "train/pool_parallel.h"

#include <atomic>

namespace turbolstm {
namespace {

// One task a stream, none waits.
StreamProgram OneTaskEach(int streams) {
  std::vector<std::vector<int32_t>> tasks;
  for (int32_t stream = 0; stream < streams; ++stream) tasks.push_back({stream});
  return {tasks, std::vector<std::vector<int32_t>>(tasks.size())};
}

}  // namespace

ParallelFor ParallelOver(StreamPool* pool) {
  return [pool, program = OneTaskEach(pool->streams())](int64_t count,
                                                        const std::function<void(int64_t)>& body) {
    std::atomic<int64_t> next{0};
    pool->Run(program, [&](int32_t, int) {
      for (int64_t i = next++; i < count; i = next++) body(i);
    });
  };
}

}  // namespace turbolstm
