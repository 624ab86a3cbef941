#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

#include "runtime/stream_program.h"
#include "runtime/task_time.h"

namespace turbolstm {

struct StreamPoolOptions {
  // Ties each worker to a core of its own, as far as there are cores; the calling thread stays as
  // it is.
  bool pin = false;
};

// Runs programs on `streams` threads: workers that live as long as the pool, and the calling thread
// as stream 0. A run allocates nothing.
class StreamPool {
 public:
  explicit StreamPool(int streams, StreamPoolOptions options = {});
  ~StreamPool();
  StreamPool(const StreamPool&) = delete;
  StreamPool& operator=(const StreamPool&) = delete;

  int streams() const { return static_cast<int>(streams_.size()); }

  // Calls run_task(int32_t task, int stream) for every task of the program; returns when all are
  // done. What a task wrote is visible to the tasks that wait for it, and to the caller. The first
  // exception, by number of the task, ends the run and is thrown here; tasks not begun by then do
  // not run. `times` is empty or has a place for each task; a task that did not run keeps its old
  // value there. Error: more streams than the pool has, or a run while another one is going on.
  template <typename RunTask>
  void Run(const StreamProgram& program, RunTask&& run_task, std::span<TaskTime> times = {}) {
    using Function = std::remove_reference_t<RunTask>;
    RunJob({&program,
            const_cast<void*>(static_cast<const void*>(std::addressof(run_task))),
            [](void* object, int32_t task, int stream) {
              (*static_cast<Function*>(object))(task, stream);
            },
            times,
            {}});
  }

 private:
  struct Job {
    const StreamProgram* program = nullptr;
    void* object = nullptr;
    void (*run_task)(void* object, int32_t task, int stream) = nullptr;
    std::span<TaskTime> times;
    std::chrono::steady_clock::time_point began;
  };
  // One cache line each, for other streams read `done` all the time.
  struct alignas(64) Stream {
    std::atomic<int32_t> done{0};  // tasks of this run
    int32_t failed_task = 0;
    std::exception_ptr failure;
  };
  struct alignas(64) Worker {
    std::atomic<uint32_t> calls{0};  // how often this worker has been called for a run
    std::mutex mutex;
    std::condition_variable called;
    bool parked = false;
    std::thread thread;
  };

  void RunJob(const Job& job);
  void RunStream(int stream);
  bool AwaitStep(const StreamProgram::Step& step) const;
  void RunStep(const StreamProgram::Step& step, int stream);
  void RethrowFailure();

  void Work(Worker& worker, int stream);
  void AwaitCall(Worker& worker, uint32_t calls_seen);
  void Call(Worker& worker);
  void StopWorkers();

  std::vector<Stream> streams_;
  std::vector<std::unique_ptr<Worker>> workers_;  // of stream 1 and up
  std::chrono::nanoseconds spin_between_runs_{0}, spin_for_task_{0};
  Job job_;                           // written while no worker is in a run
  bool closing_ = false;              // likewise
  std::atomic<int> working_{0};       // workers that have not finished this run
  std::atomic<bool> stopped_{false};  // a task of this run failed
  std::atomic<bool> busy_{false};
};

}  // namespace turbolstm
