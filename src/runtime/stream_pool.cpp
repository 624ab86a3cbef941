#include "runtime/stream_pool.h"

#include <pthread.h>
#include <sched.h>

#include <system_error>

#include "base/error.h"
#include "runtime/spin_wait.h"

namespace turbolstm {
namespace {

// How long a worker spins before it parks: long enough to bridge the gap between two runs of a
// training step, short enough to be nothing to other programs.
constexpr std::chrono::microseconds kSpinBetweenRuns(50);
// How long a stream that waits for another one keeps its core from others.
constexpr std::chrono::microseconds kSpinForTask(10);

std::vector<int> AllowedCores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

// Pinning is a wish: where it is refused, the thread runs wherever it may.
void Pin(std::thread& thread, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  pthread_setaffinity_np(thread.native_handle(), sizeof(set), &set);
}

}  // namespace

StreamPool::StreamPool(int streams, StreamPoolOptions options) {
  TL_CHECK(streams >= 1, "[stream_pool] got {} streams, wants at least 1", streams);
  streams_ = std::vector<Stream>(streams);
  const std::vector<int> cores = AllowedCores();
  // With fewer cores than threads, who spins keeps the one that is waited for from running.
  if (static_cast<size_t>(streams) <= cores.size()) {
    spin_between_runs_ = kSpinBetweenRuns;
    spin_for_task_ = kSpinForTask;
  }
  try {
    for (int stream = 1; stream < streams; ++stream) {
      workers_.push_back(std::make_unique<Worker>());
      Worker& worker = *workers_.back();
      worker.thread = std::thread([this, stream, &worker] { Work(worker, stream); });
      if (options.pin && static_cast<size_t>(stream) < cores.size()) {
        Pin(worker.thread, cores[stream]);
      }
    }
  } catch (const std::system_error& error) {
    StopWorkers();
    Fail("[stream_pool] could not start {} worker threads: {}", streams - 1, error.what());
  }
}

StreamPool::~StreamPool() {
  StopWorkers();
}

void StreamPool::StopWorkers() {
  closing_ = true;
  for (auto& worker : workers_) {
    if (!worker->thread.joinable()) continue;
    Call(*worker);
    worker->thread.join();
  }
}

void StreamPool::RunJob(const Job& job) {
  const StreamProgram& program = *job.program;
  TL_CHECK(program.streams() <= streams(),
           "[stream_pool] the program has {} streams, the pool has {}", program.streams(),
           streams());
  TL_CHECK(job.times.empty() || job.times.size() == static_cast<size_t>(program.tasks()),
           "[stream_pool] got room for {} task times, the program has {} tasks", job.times.size(),
           program.tasks());
  TL_CHECK(!busy_.exchange(true, std::memory_order_acquire),
           "[stream_pool] a run was begun while another one is going on");
  job_ = job;
  job_.began = std::chrono::steady_clock::now();
  stopped_.store(false, std::memory_order_relaxed);
  int called = 0;
  for (int stream = 0; stream < program.streams(); ++stream) {
    streams_[stream].done.store(0, std::memory_order_relaxed);
    if (stream > 0 && !program.Steps(stream).empty()) ++called;
  }
  working_.store(called, std::memory_order_relaxed);
  for (int stream = 1; stream < program.streams(); ++stream) {
    if (!program.Steps(stream).empty()) Call(*workers_[stream - 1]);
  }
  if (program.streams() > 0) RunStream(0);
  WaitUntil([this] { return working_.load(std::memory_order_acquire) == 0; }, spin_for_task_);
  RethrowFailure();
  busy_.store(false, std::memory_order_release);
}

void StreamPool::RethrowFailure() {
  if (!stopped_.load(std::memory_order_relaxed)) return;
  Stream* first = nullptr;
  for (Stream& stream : streams_) {
    if (!stream.failure) continue;
    if (first == nullptr || stream.failed_task < first->failed_task) first = &stream;
  }
  const std::exception_ptr failure = first->failure;
  for (Stream& stream : streams_) stream.failure = nullptr;
  busy_.store(false, std::memory_order_release);
  std::rethrow_exception(failure);
}

void StreamPool::RunStream(int stream) {
  int32_t done = 0;
  for (const StreamProgram::Step& step : job_.program->Steps(stream)) {
    if (!AwaitStep(step)) return;
    try {
      RunStep(step, stream);
    } catch (...) {
      streams_[stream].failed_task = step.task;
      streams_[stream].failure = std::current_exception();
      stopped_.store(true, std::memory_order_relaxed);
      return;
    }
    streams_[stream].done.store(++done, std::memory_order_release);
  }
}

// False if the run has been stopped.
bool StreamPool::AwaitStep(const StreamProgram::Step& step) const {
  for (const StreamProgram::Wait& wait : job_.program->Waits(step)) {
    const std::atomic<int32_t>& done = streams_[wait.stream].done;
    WaitUntil(
        [&] {
          return done.load(std::memory_order_acquire) >= wait.count ||
                 stopped_.load(std::memory_order_relaxed);
        },
        spin_for_task_);
  }
  return !stopped_.load(std::memory_order_relaxed);
}

void StreamPool::RunStep(const StreamProgram::Step& step, int stream) {
  if (job_.times.empty()) {
    job_.run_task(job_.object, step.task, stream);
    return;
  }
  const auto seconds = [this] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - job_.began).count();
  };
  const double start = seconds();
  job_.run_task(job_.object, step.task, stream);
  job_.times[step.task] = {start, seconds()};
}

void StreamPool::Work(Worker& worker, int stream) {
  for (uint32_t calls_seen = 0;; ++calls_seen) {
    AwaitCall(worker, calls_seen);
    if (closing_) return;
    RunStream(stream);
    working_.fetch_sub(1, std::memory_order_release);
  }
}

void StreamPool::AwaitCall(Worker& worker, uint32_t calls_seen) {
  const auto called = [&] { return worker.calls.load(std::memory_order_acquire) != calls_seen; };
  if (SpinUntil(called, spin_between_runs_)) return;
  std::unique_lock lock(worker.mutex);
  worker.parked = true;
  worker.called.wait(lock, called);
  worker.parked = false;
}

void StreamPool::Call(Worker& worker) {
  bool parked;
  {
    const std::lock_guard lock(worker.mutex);
    worker.calls.fetch_add(1, std::memory_order_release);
    parked = worker.parked;
  }
  if (parked) worker.called.notify_one();
}

}  // namespace turbolstm
