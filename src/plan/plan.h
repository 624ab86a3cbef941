#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plan/halves.h"
#include "plan/lowered.h"
#include "plan/partition.h"
#include "plan/schedule.h"
#include "runtime/stream_program.h"

namespace turbolstm {

// A plan for one shape: the work cut into tasks, and which stream runs them in which order.
struct Plan {
  int64_t steps = 0;
  int64_t batch = 0;
  Partition partition;
  Schedule schedule;
  StreamProgram program;
  PlanHalves halves;  // where there are late inputs
};

// Cuts and schedules a graph for full sequences.
Plan MakePlan(const LoweredGraph& graph, int64_t steps, int64_t batch,
              const PartitionOptions& cuts);

// About what the plan itself takes in memory.
int64_t BytesOf(const Plan& plan);

// The shape, the cuts, and the schedule as PrintSchedule writes it.
std::string PrintPlan(const Plan& plan);

// Reads such a text back, which may have been edited: tasks may stand elsewhere in their stream or
// in another, and cuts may be others where the tasks are not named yet. A text without streams is
// scheduled anew. The result is verified. Error: names the line that cannot be read, or the tasks
// whose dependency the order violates.
Plan ParsePlan(std::string_view text, const LoweredGraph& graph);

struct PlanShape {
  int64_t steps = 0;
  int64_t batch = 0;
  bool operator==(const PlanShape&) const = default;
};
// What shape a text is for, and how many streams it wants. Errors as ParsePlan's.
PlanShape ShapeOfPlan(std::string_view text);
int StreamsOfPlan(std::string_view text);

}  // namespace turbolstm
