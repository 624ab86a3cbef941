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

// Runs tasks on streams as soon as they can, the one with the longest remaining path first. Loops
// take as long as they take; all else shares what they leave of the device.
class Simulation {
 public:
  Simulation(const std::vector<Job>& jobs, const Dependencies& dependencies,
             const std::vector<std::vector<int32_t>>& successors, int64_t loop_streams,
             int64_t processors)
      : jobs_(jobs),
        successors_(successors),
        processors_(static_cast<double>(processors)),
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
      Start();
      if (now_ >= limit) return kForever;
      done += Advance();
    }
    return now_;
  }

  std::vector<std::vector<int32_t>> TakeStreams() { return std::move(streams_); }

 private:
  struct Running {
    int32_t task = -1;
    double latency = 0, work = 0;  // left; of a loop, seconds of work
  };
  using Key = std::pair<double, int32_t>;  // -remaining path, task

  size_t QueueOf(int32_t task) const {
    const Job& job = jobs_[static_cast<size_t>(task)];
    return job.loop ? 2 : job.awaited ? 0 : 1;
  }

  void Ready(int32_t task) {
    ready_[QueueOf(task)].insert({-jobs_[static_cast<size_t>(task)].remaining, task});
  }

  void Start() {
    for (size_t s = 0; s < running_.size(); ++s) {
      std::set<Key>& queue = ready_[std::min(s, kFirstLoopStream)];
      if (running_[s].task >= 0 || queue.empty()) continue;
      const int32_t task = queue.begin()->second;
      queue.erase(queue.begin());
      const Job& job = jobs_[static_cast<size_t>(task)];
      running_[s] = job.loop ? Running{task, 0, job.seconds}
                             : Running{task, job.work.latency, job.work.seconds};
      streams_[s].push_back(task);
    }
  }

  // Multiprocessors that a stream's task has; seconds of a loop's pass as they are.
  std::vector<double> Rates() const {
    double left = processors_;
    for (size_t s = kFirstLoopStream; s < running_.size(); ++s) {
      if (running_[s].task < 0) continue;
      left -= static_cast<double>(jobs_[static_cast<size_t>(running_[s].task)].processors);
    }
    std::vector<double> rates(running_.size(), 1);
    for (size_t s = 0; s < kFirstLoopStream; ++s) {
      if (running_[s].task < 0) continue;
      const double width = jobs_[static_cast<size_t>(running_[s].task)].work.width;
      rates[s] = std::clamp(left, kLeastRate, width);
      if (running_[s].latency <= 0) left -= rates[s];
    }
    return rates;
  }

  // To the next end of a task or of its latency; the number of tasks that ended.
  size_t Advance() {
    const std::vector<double> rates = Rates();
    double next = kForever;
    for (size_t s = 0; s < running_.size(); ++s) {
      const Running& r = running_[s];
      if (r.task >= 0) next = std::min(next, r.latency > 0 ? r.latency : r.work / rates[s]);
    }
    TL_CHECK(next < kForever, "[schedule] the tasks of a device wait for each other");
    now_ += next;
    size_t ended = 0;
    for (size_t s = 0; s < running_.size(); ++s) {
      Running& r = running_[s];
      if (r.task < 0) continue;
      const bool starts = r.latency > 0;
      double& left = starts ? r.latency : r.work;
      left -= next * (starts ? 1 : rates[s]);
      if (left > kNothing) continue;
      left = 0;
      if (starts && r.work > kNothing) continue;
      End(r.task);
      r = {};
      ++ended;
    }
    return ended;
  }

  void End(int32_t task) {
    for (const int32_t successor : successors_[static_cast<size_t>(task)]) {
      if (--missing_[static_cast<size_t>(successor)] == 0) Ready(successor);
    }
  }

  static constexpr double kLeastRate = 1;
  static constexpr double kNothing = 1e-12;

  const std::vector<Job>& jobs_;
  const std::vector<std::vector<int32_t>>& successors_;
  const double processors_;
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

  DeviceSchedule Run(int64_t blocks) {
    for (const int64_t block : Blocks(blocks)) {
      for (const bool sums : {false, true}) {
        if (sums && block == 0) continue;
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
  std::vector<int64_t> Blocks(int64_t asked) const {
    const int64_t aligned = AlignedSteps();
    std::vector<int64_t> blocks;
    const auto add = [&](int64_t count, int64_t least) {
      int64_t block = std::max(least, (shape_.steps + count - 1) / count);
      block = (block + aligned - 1) / aligned * aligned;
      if (block >= shape_.steps) block = 0;
      if (std::find(blocks.begin(), blocks.end(), block) == blocks.end()) blocks.push_back(block);
    };
    if (asked > 0) {
      add(asked, 1);
    } else {
      for (const int64_t count : kBlockCounts) add(count, kLeastBlock);
    }
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
    std::set<std::pair<int64_t, int64_t>> tried;
    for (const int64_t at_once : kLoopsAtOnce) {
      if (at_once > 1 && at_once > CountLoops()) continue;
      for (const int64_t left : kLeftForProducts) {
        const int64_t share = (model_.processors - left) / at_once;
        if (share < 1 || !SetShare(share, cut)) continue;
        if (!tried.insert({at_once, Signature(*cut)}).second) continue;
        Simulation simulation(cut->jobs, cut->dependencies, cut->successors, at_once,
                              model_.processors);
        const double seconds = simulation.Run(best_ ? best_->seconds : kForever);
        if (best_ && seconds >= best_->seconds) continue;
        best_ = Found{*cut, share, seconds, simulation.TakeStreams()};
      }
    }
  }

  int64_t CountLoops() const {
    return std::count_if(loops_.begin(), loops_.end(),
                         [](const DeviceLoop& loop) { return loop.persistent; });
  }

  // Shares that loops cannot make use of differ in nothing.
  static int64_t Signature(const CutGraph& cut) {
    int64_t signature = 0;
    for (const Job& job : cut.jobs) signature = signature * 1009 + job.processors;
    return signature;
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
        job.seconds =
            model_.loop_start + loop.step * static_cast<double>(task.time_end - task.time_begin);
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
    schedule.seconds = best_->seconds;
    const int64_t resident = MostResident(schedule, shares_);
    TL_CHECK(resident <= model_.processors,
             "[schedule] loops that may run at once need {} multiprocessors, the device has {}",
             resident, model_.processors);
    return schedule;
  }

  struct Found {
    CutGraph cut;
    int64_t share;
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
    return model.loop_start + share.step * static_cast<double>(shape.steps);
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
                                 const LoopShares& shares, int64_t blocks) {
  return Search(graph, loops, shape, model, shares).Run(blocks);
}

}  // namespace turbolstm
