#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/lowered.h"
#include "plan/partition.h"
#include "runtime/stream_program.h"

namespace turbolstm {

// Some tasks of a plan, scheduled on their own.
struct PlanHalf {
  std::vector<int32_t> tasks;  // ascending; the program's task i is tasks[i] of the plan
  StreamProgram program;
};

// The tasks of a plan in two halves: those that need nothing of the late inputs, and the rest. A
// forward and a backward pass, when the gradients of the outputs come late.
struct PlanHalves {
  PlanHalf early, late;
  std::vector<bool> is_late;  // by buffer: a late input, or written by the late half
};

// Error: no such input.
PlanHalves SplitPlan(const LoweredGraph& graph, const Partition& partition,
                     std::span<const std::string> late_inputs, int streams, bool verify);

}  // namespace turbolstm
