#include "plan/schedule.h"

#include <algorithm>

#include "base/error.h"
#include "plan/stream_clocks.h"

namespace turbolstm {
namespace {

// Waits of one task: the last task it needs of each other stream, without those that are done
// anyway because of the task before it or of another wait.
std::vector<int32_t> ReduceWaits(int32_t task, const std::vector<int32_t>& before,
                                 const std::vector<std::vector<int32_t>>& streams,
                                 const StreamClocks& clocks) {
  const int32_t stream = clocks.stream(task);
  const int32_t position = clocks.position(task);
  const int32_t previous = position > 0 ? streams[stream][position - 1] : -1;
  std::vector<int32_t> waits;
  for (const int32_t other : before) {
    if (clocks.stream(other) == stream) continue;
    if (previous >= 0 && clocks.Ordered(other, previous)) continue;
    const bool implied = std::any_of(before.begin(), before.end(), [&](int32_t third) {
      return third != other && clocks.Ordered(other, third);
    });
    if (!implied) waits.push_back(other);
  }
  std::sort(waits.begin(), waits.end());
  waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
  return waits;
}

std::vector<TaskTime> Estimate(std::span<const Task> tasks, const Dependencies& dependencies,
                               const std::vector<std::vector<int32_t>>& streams,
                               const StreamClocks& clocks, const MachineModel& machine) {
  std::vector<TaskTime> times(tasks.size());
  for (const int32_t task : clocks.sequence()) {
    const int32_t stream = clocks.stream(task);
    const int32_t position = clocks.position(task);
    double start = position > 0 ? times[streams[stream][position - 1]].finish : 0;
    for (const int32_t other : dependencies[task]) {
      const double handover = clocks.stream(other) == stream ? 0 : machine.handover;
      start = std::max(start, times[other].finish + handover);
    }
    times[task] = {start, start + tasks[task].cost};
  }
  return times;
}

}  // namespace

double Schedule::EstimatedSeconds() const {
  double seconds = 0;
  for (const TaskTime& time : estimate) seconds = std::max(seconds, time.finish);
  return seconds;
}

Schedule CompleteSchedule(std::span<const Task> tasks, const Dependencies& dependencies,
                          std::vector<std::vector<int32_t>> streams, const MachineModel& machine) {
  const StreamClocks clocks(tasks, streams, dependencies);
  Schedule schedule;
  schedule.waits.reserve(tasks.size());
  for (int32_t task = 0; task < static_cast<int32_t>(tasks.size()); ++task) {
    schedule.waits.push_back(ReduceWaits(task, dependencies[task], streams, clocks));
  }
  schedule.estimate = Estimate(tasks, dependencies, streams, clocks, machine);
  schedule.streams = std::move(streams);
  return schedule;
}

}  // namespace turbolstm
