#pragma once

#include <memory>
#include <mutex>

#include "runtime/stream_pool.h"

namespace turbolstm {

// Threads that all runs with the same number of threads share, one run at a time.
struct SharedPool {
  std::shared_ptr<StreamPool> streams;
  std::mutex turn;
  int process = 0;  // whose threads these are: a forked child has none of them
};

// threads: 0 for one a core. Pools live as long as the process.
SharedPool& PoolOf(int threads);

// Error in a child forked off the pool's process.
void CheckProcess(const SharedPool& pool);

}  // namespace turbolstm
