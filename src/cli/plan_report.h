#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cli/planned_network.h"
#include "plan/executable.h"
#include "runtime/task_time.h"

namespace turbolstm::cli {

// How fast a plan was made and ran.
struct PlanTimes {
  double planning = 0;  // seconds
  double measured = 0;  // seconds of a run, 0: it has not been run
  int runs = 0;
};

// What a person wants to know first: cuts, times, memory, what the critical path is made of, how
// busy the streams are, what hides behind the loops. times: of each task, measured ones if the plan
// has been run.
std::string PlanSummary(const PlannedNetwork& network, const Executable& executable,
                        std::string_view schedule, const PlanTimes& how_long,
                        std::span<const TaskTime> times);

std::string GroupsTable(const LoweredGraph& graph);
// What takes up memory, largest first.
std::string MemoryTable(const Executable& executable);
// What keeping activations and computing them again take, as planned.
std::string RecomputeTable(const PlannedNetwork& network, const Executable& executable,
                           const ExecutableOptions& options);

std::string Mebibytes(int64_t bytes);

}  // namespace turbolstm::cli
