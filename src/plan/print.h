#pragma once

#include <span>
#include <string>
#include <string_view>

#include "plan/schedule.h"
#include "plan/task.h"

namespace turbolstm {

// The schedule as text: streams with their tasks, and as comments (#) the estimated times, what is
// waited for, the critical path and how busy each stream is. Tasks may be moved within and between
// streams by hand and read back.
std::string PrintSchedule(std::span<const Task> tasks, const Dependencies& dependencies,
                          const Schedule& schedule);

// Reads the text back; the waits are derived anew. The result is verified: Error names the line
// that cannot be read, or the tasks whose dependency the order violates.
Schedule ParseSchedule(std::string_view text, std::span<const Task> tasks,
                       const Dependencies& dependencies, const MachineModel& machine = {});

// The task graph for Graphviz; coloured by stream where a schedule is given.
std::string PrintTaskGraph(std::span<const Task> tasks, const Dependencies& dependencies,
                           const Schedule* schedule = nullptr);

// Chrome trace (also read by Perfetto): one row a stream, arrows for the waits. `times`, one a
// task, are the estimate's or measured ones.
std::string PrintTrace(std::span<const Task> tasks, const Schedule& schedule,
                       std::span<const TaskTime> times);

}  // namespace turbolstm
