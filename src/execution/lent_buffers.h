#pragma once

#include <vector>

#include "plan/lowered.h"

namespace turbolstm {

// What of a lowered graph can lie in the caller's memory, and which half makes what.
struct LentBuffers {
  std::vector<bool> lent;          // by buffer
  std::vector<bool> late_outputs;  // by output
  std::vector<bool> reread;        // by output: made early, and read by late groups
};

// Inputs and parameters are lent, and outputs that have a buffer for themselves which only one half
// writes; the others are copied out. Error: a group writes an input.
LentBuffers FindLentBuffers(const LoweredGraph& graph);

}  // namespace turbolstm
