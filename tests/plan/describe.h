#pragma once

#include <string>

#include "plan/lowered.h"

namespace turbolstm {

// A lowered graph in a few lines, a group each, then the buffers that are not inputs or
// parameters:
//   GemmLoop: product h@1 -> += wide + bias; program wide[0:2], c@1 -> c, h
//   wide: step[8] fp32
//   c: step[2] fp32 ring 2
// Operands are called by the buffer they lie in, with their columns where they are not all of it.
std::string Describe(const LoweredGraph& graph);

}  // namespace turbolstm
