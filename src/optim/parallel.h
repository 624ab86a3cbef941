#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace turbolstm {

// Calls body(0) to body(count - 1), in any order and on any thread, and returns when all are done.
// What a worker pool offers; the results here do not depend on it.
using ParallelFor = std::function<void(int64_t count, const std::function<void(int64_t)>& body)>;

// On the calling thread.
inline void SerialFor(int64_t count, const std::function<void(int64_t)>& body) {
  for (int64_t i = 0; i < count; ++i) body(i);
}

// Elements of one task. Fixed, so that sums are formed in the same order on any number of threads.
inline constexpr size_t kOptimizerChunk = 1 << 15;

}  // namespace turbolstm
