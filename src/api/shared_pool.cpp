#include "api/shared_pool.h"

#include <unistd.h>

#include <map>
#include <thread>
#include <utility>

#include "base/error.h"

namespace turbolstm {

SharedPool& PoolOf(int threads) {
  TL_CHECK(threads >= 0, "[threads] got {}, wants at least 1, or 0 for one a core", threads);
  if (threads == 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  // Never destroyed: a child must not wait for threads that it does not have.
  static std::mutex mutex;
  static auto& pools = *new std::map<std::pair<int, int>, std::unique_ptr<SharedPool>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<SharedPool>& pool = pools[{getpid(), threads}];
  if (!pool) {
    pool = std::make_unique<SharedPool>();
    pool->streams = std::make_shared<StreamPool>(threads);
    pool->process = getpid();
  }
  return *pool;
}

void CheckProcess(const SharedPool& pool) {
  TL_CHECK(pool.process == getpid(),
           "[run] it was made in process {} before a fork; make a new one in the child {}",
           pool.process, getpid());
}

}  // namespace turbolstm
