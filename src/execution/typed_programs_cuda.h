#pragma once

#include <vector>

#include "ops/pointwise/kernel_cuda.h"
#include "plan/lowered.h"

namespace turbolstm::cuda {

// Whether a loop is one program whose elements read, of what the loop writes, only themselves: one
// kernel can walk through it.
bool RunsInOneKernel(const LoweredGraph& graph, const Group& group);

// The programs of a graph, by group and stage, with the types of the buffers that they read and
// write. Nothing for stages of other kinds.
std::vector<TypedProgram> TypedProgramsOf(const LoweredGraph& graph);

}  // namespace turbolstm::cuda
