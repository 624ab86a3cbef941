#include "plan/timeline.h"

#include <algorithm>

#include "base/error.h"
#include "plan/dependencies.h"

namespace turbolstm {
namespace {

// Times in which something is so, one after the other without overlap.
using Intervals = std::vector<TaskTime>;

Intervals Merged(Intervals intervals) {
  std::ranges::sort(intervals, {}, &TaskTime::start);
  Intervals merged;
  for (const TaskTime& next : intervals) {
    if (!merged.empty() && next.start <= merged.back().finish) {
      merged.back().finish = std::max(merged.back().finish, next.finish);
    } else {
      merged.push_back(next);
    }
  }
  return merged;
}

double Shared(const Intervals& intervals, const TaskTime& with) {
  double seconds = 0;
  auto it = std::ranges::upper_bound(intervals, with.start, {}, &TaskTime::finish);
  for (; it != intervals.end() && it->start < with.finish; ++it) {
    seconds += std::max(0.0, std::min(it->finish, with.finish) - std::max(it->start, with.start));
  }
  return seconds;
}

// Seconds in which as many tasks run as there are streams.
double SecondsOfAll(std::span<const TaskTime> times, size_t streams) {
  std::vector<std::pair<double, int>> changes;
  for (const TaskTime& time : times) {
    changes.emplace_back(time.start, 1);
    changes.emplace_back(time.finish, -1);
  }
  std::ranges::sort(changes);
  double seconds = 0, since = 0;
  int running = 0;
  for (const auto& [when, change] : changes) {
    if (running >= static_cast<int>(streams)) seconds += when - since;
    running += change;
    since = when;
  }
  return seconds;
}

}  // namespace

std::string_view Name(TaskKind kind) {
  switch (kind) {
    case TaskKind::kLoop:
      return "loops";
    case TaskKind::kProduct:
      return "products";
    case TaskKind::kSum:
      return "sums";
    case TaskKind::kPointwise:
      return "pointwise";
    case TaskKind::kPacking:
      return "packing";
    case TaskKind::kUpdate:
      return "updates";
  }
  return "?";
}

TaskKind KindOfTask(const LoweredGraph& graph, const Work& work) {
  if (work.weight >= 0) return TaskKind::kPacking;
  if (work.update >= 0) return TaskKind::kUpdate;
  const Group& group = graph.groups[static_cast<size_t>(work.group)];
  switch (KindOfWork(group)) {
    case WorkKind::kLoop:
      return TaskKind::kLoop;
    case WorkKind::kReduction:
      return TaskKind::kSum;
    default:
      break;
  }
  const bool product = std::ranges::any_of(
      group.stages, [](const Stage& stage) { return stage.kind == Stage::Kind::kMatMul; });
  return product ? TaskKind::kProduct : TaskKind::kPointwise;
}

Timeline TimelineOf(const LoweredGraph& graph, const Plan& plan, std::span<const TaskTime> times) {
  const std::vector<Task>& tasks = plan.partition.tasks;
  TL_CHECK(times.size() == tasks.size(), "[timeline] got {} times, the plan has {} tasks",
           times.size(), tasks.size());
  Timeline timeline;
  Intervals loops;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (KindOfTask(graph, plan.partition.work[i]) == TaskKind::kLoop) loops.push_back(times[i]);
  }
  loops = Merged(std::move(loops));
  for (size_t i = 0; i < tasks.size(); ++i) {
    const TaskKind kind = KindOfTask(graph, plan.partition.work[i]);
    KindTotals& totals = timeline.kinds[static_cast<size_t>(kind)];
    ++totals.tasks;
    totals.predicted += tasks[i].cost;
    totals.taken += times[i].finish - times[i].start;
    if (kind != TaskKind::kLoop) totals.beside_loops += Shared(loops, times[i]);
    timeline.seconds = std::max(timeline.seconds, times[i].finish);
  }
  for (const int32_t task : CriticalPath(tasks, DeriveDependencies(tasks))) {
    const auto i = static_cast<size_t>(task);
    timeline.kinds[static_cast<size_t>(KindOfTask(graph, plan.partition.work[i]))].critical +=
        tasks[i].cost;
  }
  for (const std::vector<int32_t>& stream : plan.schedule.streams) {
    double busy = 0;
    for (const int32_t task : stream) {
      const TaskTime& time = times[static_cast<size_t>(task)];
      busy += time.finish - time.start;
    }
    timeline.busy.push_back(busy);
  }
  timeline.all_busy = SecondsOfAll(times, plan.schedule.streams.size());
  return timeline;
}

}  // namespace turbolstm
