#include "runtime/stream_program.h"

#include "base/error.h"

namespace turbolstm {

StreamProgram::StreamProgram(std::span<const std::vector<int32_t>> streams,
                             std::span<const std::vector<int32_t>> waits) {
  const auto tasks = static_cast<int32_t>(waits.size());
  std::vector<Wait> done_when(tasks, Wait{-1, 0});
  for (size_t s = 0; s < streams.size(); ++s) {
    for (size_t i = 0; i < streams[s].size(); ++i) {
      const int32_t task = streams[s][i];
      TL_CHECK(task >= 0 && task < tasks, "[stream_program] stream {} has task {}, wants 0 .. {}",
               s, task, tasks - 1);
      TL_CHECK(done_when[task].stream < 0, "[stream_program] task {} stands in a stream twice",
               task);
      done_when[task] = {static_cast<int32_t>(s), static_cast<int32_t>(i) + 1};
    }
  }
  for (int32_t task = 0; task < tasks; ++task) {
    TL_CHECK(done_when[task].stream >= 0, "[stream_program] task {} stands in no stream", task);
  }
  steps_.reserve(tasks);
  for (const auto& stream : streams) {
    for (const int32_t task : stream) {
      const auto begin = static_cast<int32_t>(waits_.size());
      for (const int32_t other : waits[task]) {
        TL_CHECK(other >= 0 && other < tasks && other != task,
                 "[stream_program] task {} waits for task {}, wants another one of 0 .. {}", task,
                 other, tasks - 1);
        waits_.push_back(done_when[other]);
      }
      steps_.push_back({task, begin, static_cast<int32_t>(waits_.size())});
    }
    stream_begin_.push_back(static_cast<int32_t>(steps_.size()));
  }
}

}  // namespace turbolstm
