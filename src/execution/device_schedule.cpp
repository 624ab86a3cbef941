#include "execution/device_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"
#include "execution/turns.h"
#include "plan/dependencies.h"
#include "plan/print.h"
#include "plan/stream_clocks.h"

namespace turbolstm {
namespace {

constexpr size_t kFirstLoopStream = DeviceSchedule::kFirstLoopStream;
constexpr double kForever = std::numeric_limits<double>::infinity();
// What is tried.
constexpr int64_t kBlockCounts[] = {1, 2, 3, 4, 6, 8, 12, 16};
constexpr int64_t kLeastBlock = 8;  // steps
constexpr int64_t kLoopsAtOnce[] = {1, 2, 3, 4, 6, 8};
constexpr int64_t kLeftForProducts[] = {0, 16, 36, 60};  // multiprocessors
constexpr int64_t kRowAlignment = 256;                   // bytes

// A task as the simulation sees it.
struct Job {
  bool loop = false;
  bool awaited = false;    // by a loop, if not directly
  int64_t processors = 0;  // of a loop
  double seconds = 0;      // of a loop
  DeviceWork work;         // else
  double alone = 0;        // seconds with the whole device
  double remaining = 0;    // to the end of the last task that needs it
};

// Runs tasks on streams as soon as they can, the one with the longest remaining path first. A loop
// begins when all multiprocessors that it needs are free, and takes as long as it takes; all else
// uses what is free, up to a limit, and holds that to its end.
class Simulation {
 public:
  Simulation(const std::vector<Job>& jobs, const Dependencies& dependencies,
             const std::vector<std::vector<int32_t>>& successors, int64_t loop_streams,
             int64_t processors, int64_t product_limit)
      : jobs_(jobs),
        successors_(successors),
        free_(static_cast<double>(processors)),
        limit_(static_cast<double>(product_limit)),
        missing_(jobs.size()),
        running_(kFirstLoopStream + static_cast<size_t>(loop_streams)),
        streams_(running_.size()) {
    for (size_t j = 0; j < jobs.size(); ++j) {
      missing_[j] = dependencies[j].size();
      if (missing_[j] == 0) Ready(static_cast<int32_t>(j));
    }
  }

  // Seconds; gives up at `limit`.
  double Run(double limit) {
    size_t done = 0;
    while (done < jobs_.size()) {
      const bool loop_waits = StartLoops();
      StartOthers(loop_waits);
      if (now_ >= limit) return kForever;
      done += Advance();
    }
    return now_;
  }

  std::vector<std::vector<int32_t>> TakeStreams() { return std::move(streams_); }

 private:
  struct Running {
    int32_t task = -1;
    double latency = 0, work = 0;  // left
    double held = 0;               // multiprocessors
    bool loop = false;

    double Rate() const { return loop ? 1 : held; }
  };
  using Key = std::pair<double, int32_t>;  // -remaining path, task

  const Job& job(int32_t task) const { return jobs_[static_cast<size_t>(task)]; }

  void Ready(int32_t task) {
    const size_t queue = job(task).loop ? 2 : job(task).awaited ? 0 : 1;
    ready_[queue].insert({-job(task).remaining, task});
  }

  int32_t Take(std::set<Key>* queue) {
    const int32_t task = queue->begin()->second;
    queue->erase(queue->begin());
    return task;
  }

  // True when a loop waits for multiprocessors: then it has those that become free next.
  bool StartLoops() {
    std::set<Key>& queue = ready_[kFirstLoopStream];
    for (size_t s = kFirstLoopStream; s < running_.size() && !queue.empty(); ++s) {
      if (running_[s].task >= 0) continue;
      const Job& next = job(queue.begin()->second);
      const auto wanted = static_cast<double>(next.processors);
      if (wanted > free_) return true;
      const int32_t task = Take(&queue);
      free_ -= wanted;
      running_[s] = {task, 0, next.seconds, wanted, true};
      streams_[s].push_back(task);
    }
    return false;
  }

  void StartOthers(bool loop_waits) {
    for (size_t s = 0; s < kFirstLoopStream; ++s) {
      Running& r = running_[s];
      if (r.task < 0 && !ready_[s].empty()) {
        const int32_t task = Take(&ready_[s]);
        r = {task, job(task).work.latency, job(task).work.seconds, 0, false};
        streams_[s].push_back(task);
      }
      if (r.task < 0 || r.latency > 0 || loop_waits) continue;
      const double most = std::min(job(r.task).work.width, limit_);
      const double more = std::clamp(most - r.held, 0.0, free_);
      r.held += more;
      free_ -= more;
    }
  }

  // To the next end of a task or of its latency; the number of tasks that ended.
  size_t Advance() {
    double next = kForever;
    for (const Running& r : running_) {
      if (r.task < 0) continue;
      if (r.latency > 0) next = std::min(next, r.latency);
      if (r.latency <= 0 && r.held > 0) next = std::min(next, r.work / r.Rate());
    }
    TL_CHECK(next < kForever, "[schedule] the tasks of a device wait for each other");
    now_ += next;
    size_t ended = 0;
    for (Running& r : running_) {
      if (r.task < 0) continue;
      if (r.latency > 0) {
        r.latency -= next;
        if (r.latency < kNothing) r.latency = 0;
        continue;
      }
      if (r.held == 0) continue;
      r.work -= next * r.Rate();
      if (r.work > kNothing) continue;
      End(r);
      r = {};
      ++ended;
    }
    return ended;
  }

  void End(const Running& r) {
    free_ += r.held;
    for (const int32_t successor : successors_[static_cast<size_t>(r.task)]) {
      if (--missing_[static_cast<size_t>(successor)] == 0) Ready(successor);
    }
  }

  static constexpr double kNothing = 1e-12;

  const std::vector<Job>& jobs_;
  const std::vector<std::vector<int32_t>>& successors_;
  double free_;
  const double limit_;
  std::vector<size_t> missing_;
  std::set<Key> ready_[kFirstLoopStream + 1];
  std::vector<Running> running_;  // by stream
  std::vector<std::vector<int32_t>> streams_;
  double now_ = 0;
};

// A graph cut in one way.
struct CutGraph {
  int64_t block = 0;
  DeviceTasks work;
  Dependencies dependencies;
  std::vector<std::vector<int32_t>> successors;
  std::vector<Job> jobs;  // loops' times are filled in for a share
};

class Search {
 public:
  Search(const LoweredGraph& graph, const std::vector<DeviceLoop>& loops,
         const DeviceShapeOfWork& shape, const DeviceModel& model, const LoopShares& shares)
      : graph_(graph), loops_(loops), shape_(shape), model_(model), shares_(shares) {}

  DeviceSchedule Run(const DeviceSearch& search) {
    for (const int64_t block : Blocks(search)) {
      for (const bool sums : {false, true}) {
        if (sums && (block == 0 || !search.sums)) continue;
        CutGraph cut = Cut({block, sums});
        TryShares(&cut);
      }
    }
    TL_CHECK(best_, "[schedule] no loop of the graph fits on a device of {} multiprocessors",
             model_.processors);
    return Complete();
  }

 private:
  // Steps after which the rows of what products read and write begin anew at a multiple of the
  // alignment.
  int64_t AlignedSteps() const {
    int64_t steps = 1;
    const auto align = [&](const View& view) {
      if (view.buffer < 0) return;
      const Buffer& buffer = graph_.buffers[static_cast<size_t>(view.buffer)];
      const auto size = static_cast<int64_t>(SizeOf(buffer.dtype));
      const int64_t bytes = shape_.batch * buffer.width * size;
      if (buffer.domain != Domain::kStep || bytes == 0) return;
      steps = std::lcm(steps, kRowAlignment / std::gcd(kRowAlignment, bytes));
    };
    for (const Group& group : graph_.groups) {
      if (group.is_loop()) continue;
      for (const Stage& stage : group.stages) {
        if (stage.kind != Stage::Kind::kMatMul || stage.domain != Domain::kStep) continue;
        align(stage.inputs[0].view);
        align(stage.outputs[0]);
      }
    }
    return steps;
  }

  // Steps of a block; 0: all.
  std::vector<int64_t> Blocks(const DeviceSearch& search) const {
    const int64_t aligned = AlignedSteps();
    std::vector<int64_t> blocks;
    const auto add = [&](int64_t count, int64_t least) {
      int64_t block = std::max(least, (shape_.steps + count - 1) / count);
      block = (block + aligned - 1) / aligned * aligned;
      if (block >= shape_.steps) block = 0;
      if (std::find(blocks.begin(), blocks.end(), block) == blocks.end()) blocks.push_back(block);
    };
    if (search.blocks > 0) {
      add(search.blocks, 1);
      return blocks;
    }
    for (const int64_t count : kBlockCounts) add(count, kLeastBlock);
    if (!search.whole && blocks.size() > 1) std::erase(blocks, 0);
    return blocks;
  }

  CutGraph Cut(const DeviceCut& how) const {
    CutGraph cut;
    cut.block = how.block;
    cut.work = CutForDevice(graph_, loops_, shape_.steps, shape_.batch, how);
    cut.dependencies = DeriveDependencies(cut.work.tasks);
    const size_t count = cut.work.tasks.size();
    cut.successors.resize(count);
    cut.jobs.resize(count);
    for (size_t j = count; j-- > 0;) {
      const Task& task = cut.work.tasks[j];
      Job& job = cut.jobs[j];
      job.loop = cut.work.parts[j] == DevicePart::kLoop;
      if (!job.loop) {
        job.work = WorkOf(graph_, task, cut.work.parts[j], cut.work.adds[j], model_);
        job.work.latency += model_.handover;
        job.alone = job.work.latency + job.work.seconds / job.work.width;
      }
      for (const int32_t before : cut.dependencies[j]) {
        cut.successors[static_cast<size_t>(before)].push_back(static_cast<int32_t>(j));
        cut.jobs[static_cast<size_t>(before)].awaited |= job.loop || job.awaited;
      }
    }
    return cut;
  }

  void TryShares(CutGraph* cut) {
    for (const int64_t at_once : kLoopsAtOnce) {
      if (at_once > 1 && at_once > CountLoops()) continue;
      for (const int64_t left : kLeftForProducts) {
        const int64_t share = (model_.processors - left) / at_once;
        if (share < 1 || !SetShare(share, cut)) continue;
        const int64_t limit = left > 0 ? left : model_.processors;
        Simulation simulation(cut->jobs, cut->dependencies, cut->successors, at_once,
                              model_.processors, limit);
        const double seconds = simulation.Run(best_ ? best_->seconds : kForever);
        if (best_ && seconds >= best_->seconds) continue;
        best_ = Found{*cut, share, limit, seconds, simulation.TakeStreams()};
      }
    }
  }

  int64_t CountLoops() const {
    return std::count_if(loops_.begin(), loops_.end(),
                         [](const DeviceLoop& loop) { return loop.persistent; });
  }

  const LoopShare& ShareOf(size_t group, int64_t processors) {
    const auto [known, added] = known_shares_.try_emplace({group, processors});
    if (added) known->second = shares_(group, processors);
    return known->second;
  }

  // Whether every loop fits its share.
  bool SetShare(int64_t share, CutGraph* cut) {
    for (size_t j = cut->jobs.size(); j-- > 0;) {
      Job& job = cut->jobs[j];
      const Task& task = cut->work.tasks[j];
      if (job.loop) {
        const LoopShare& loop = ShareOf(static_cast<size_t>(task.group), share);
        if (loop.processors == 0) return false;
        job.processors = loop.processors;
        job.seconds = model_.handover + loop.start +
                      loop.step * static_cast<double>(task.time_end - task.time_begin);
        job.alone = job.seconds;
      }
      job.remaining = job.alone;
      for (const int32_t successor : cut->successors[j]) {
        job.remaining = std::max(job.remaining,
                                 job.alone + cut->jobs[static_cast<size_t>(successor)].remaining);
      }
    }
    return true;
  }

  DeviceSchedule Complete() {
    DeviceSchedule schedule;
    schedule.work = std::move(best_->cut.work);
    for (size_t j = 0; j < schedule.work.tasks.size(); ++j) {
      schedule.work.tasks[j].cost = best_->cut.jobs[j].alone;
    }
    schedule.dependencies = std::move(best_->cut.dependencies);
    schedule.streams =
        CompleteSchedule(schedule.work.tasks, schedule.dependencies, std::move(best_->streams));
    const StreamClocks clocks(schedule.work.tasks, schedule.streams.streams,
                              schedule.streams.waits);
    schedule.sequence.assign(clocks.sequence().begin(), clocks.sequence().end());
    schedule.block = best_->cut.block;
    schedule.share = best_->share;
    schedule.product_limit = best_->limit;
    schedule.seconds = best_->seconds;
    const int64_t resident = MostResident(schedule, shares_);
    TL_CHECK(resident <= model_.processors,
             "[schedule] loops that may run at once need {} multiprocessors, the device has {}",
             resident, model_.processors);
    return schedule;
  }

  struct Found {
    CutGraph cut;
    int64_t share, limit;
    double seconds;
    std::vector<std::vector<int32_t>> streams;
  };

  const LoweredGraph& graph_;
  const std::vector<DeviceLoop>& loops_;
  const DeviceShapeOfWork& shape_;
  const DeviceModel& model_;
  const LoopShares& shares_;
  std::map<std::pair<size_t, int64_t>, LoopShare> known_shares_;
  std::optional<Found> best_;
};

}  // namespace

std::string DeviceSchedule::Text() const {
  return fmt::format("# blocks of {} steps, loops on at most {} multiprocessors, {:.3f} ms\n{}",
                     block, share, 1e3 * seconds, PrintSchedule(work.tasks, dependencies, streams));
}

DeviceSearch SearchOf(ScheduleKind kind, int64_t steps, int64_t blocks) {
  switch (kind) {
    case ScheduleKind::kWholeWindow:
      return {.blocks = 1};
    case ScheduleKind::kWavefront:
      return {.blocks = blocks, .whole = false, .sums = false};
    case ScheduleKind::kCellWavefront:
      return {.blocks = std::max<int64_t>(1, steps), .whole = false, .sums = false};
    case ScheduleKind::kTurboLstm:
      return {.blocks = blocks, .whole = false};
    case ScheduleKind::kSequential:
    case ScheduleKind::kAuto:
      break;
  }
  return {.blocks = blocks};
}

int64_t MostResident(const DeviceSchedule& schedule, const LoopShares& shares) {
  int64_t all = 0;
  for (const std::vector<int32_t>& stream : schedule.streams.streams) {
    int64_t most = 0;
    for (const int32_t task : stream) {
      const auto j = static_cast<size_t>(task);
      if (schedule.work.parts[j] != DevicePart::kLoop) continue;
      const auto group = static_cast<size_t>(schedule.work.tasks[j].group);
      most = std::max(most, shares(group, schedule.share).processors);
    }
    all += most;
  }
  return all;
}

double SecondsInTurns(const LoweredGraph& graph, const std::vector<DeviceLoop>& loops,
                      const DeviceShapeOfWork& shape, const DeviceModel& model,
                      const LoopShares& shares) {
  const DeviceTasks work = CutForDevice(graph, loops, shape.steps, shape.batch, {});
  const std::vector<int64_t> turns = Turns(graph);
  const auto seconds_of = [&](size_t group, int64_t processors) {
    const LoopShare share = shares(group, processors);
    if (share.processors == 0) return kForever;
    return share.start + share.step * static_cast<double>(shape.steps);
  };
  double seconds = 0;
  int32_t beside = -1;  // a loop that has run with the one before it
  for (size_t j = 0; j < work.tasks.size(); ++j) {
    const auto g = static_cast<size_t>(work.tasks[j].group);
    if (work.parts[j] != DevicePart::kLoop) {
      const DeviceWork own = WorkOf(graph, work.tasks[j], work.parts[j], false, model);
      seconds += own.latency + own.seconds / own.width;
      continue;
    }
    if (beside == work.tasks[j].group) continue;
    const double alone = seconds_of(g, model.processors);
    seconds += alone;
    if (g + 1 == turns.size() || turns[g] != turns[g + 1] || !loops[g + 1].persistent) continue;
    const int64_t half = model.processors / 2;
    const double both = std::max(seconds_of(g, half), seconds_of(g + 1, half));
    if (both >= alone + seconds_of(g + 1, model.processors)) continue;
    seconds += both - alone;
    beside = work.tasks[j].group + 1;
  }
  return seconds;
}

DeviceSchedule ScheduleForDevice(const LoweredGraph& graph, const std::vector<DeviceLoop>& loops,
                                 const DeviceShapeOfWork& shape, const DeviceModel& model,
                                 const LoopShares& shares, const DeviceSearch& search) {
  return Search(graph, loops, shape, model, shares).Run(search);
}

}  // namespace turbolstm
