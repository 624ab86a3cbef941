#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/task.h"
#include "runtime/task_time.h"

namespace turbolstm {

using Dependencies = std::vector<std::vector<int32_t>>;  // as DeriveDependencies makes them

// Which stream runs which tasks in which order, and what has to be waited for.
struct Schedule {
  std::vector<std::vector<int32_t>> streams;  // tasks of each stream, in order
  // waits[t]: tasks of other streams that t waits for; at most one a stream, since streams are in
  // order, and none that another wait implies.
  std::vector<std::vector<int32_t>> waits;
  std::vector<TaskTime> estimate;  // by the tasks' costs

  double EstimatedSeconds() const;
};

// What the scheduler assumes of the machine.
struct MachineModel {
  // Seconds until a task may begin on another stream than the one whose result it waits for.
  double handover = 3e-7;
  // A task stays with the stream that has its input in cache if that delays it by at most this
  // fraction of its cost.
  double affinity = 0.1;
  // A task whose input lies with a free stream goes before one whose remaining path is longer by at
  // most this fraction of its cost.
  double overtaking = 1;
};

// List scheduling: whenever a stream is free, the task that has the longest remaining path among
// those that can begin, or nearly so, goes where it finishes first, or nearly so: MachineModel says
// how much the input's place in the caches weighs. The same input gives the same schedule. One
// stream keeps the given order, since no other one is quicker. Errors: no stream, or a cost that is
// negative or not a number.
Schedule ListSchedule(std::span<const Task> tasks, const Dependencies& dependencies, int streams,
                      const MachineModel& machine = {});

// Completes given streams: derives the waits and the estimate. Error where the order of the streams
// contradicts a dependency or lets streams wait for each other for ever, naming the tasks, and
// where a task does not stand in exactly one stream.
Schedule CompleteSchedule(std::span<const Task> tasks, const Dependencies& dependencies,
                          std::vector<std::vector<int32_t>> streams,
                          const MachineModel& machine = {});

// A chain of dependent tasks that costs the most, first task first: no number of streams is
// quicker.
std::vector<int32_t> CriticalPath(std::span<const Task> tasks, const Dependencies& dependencies);

}  // namespace turbolstm
