#pragma once

#include <span>
#include <string>

#include "plan/lowered.h"

namespace turbolstm {

// Moves the groups that need one of these inputs, or what such a group writes, behind all others,
// and notes where they begin: LoweredGraph::first_late. A forward and a backward pass, when the
// gradients of the outputs come late. Error: no such input.
void PutLateGroupsLast(LoweredGraph* graph, std::span<const std::string> late_inputs);

}  // namespace turbolstm
