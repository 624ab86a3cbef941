#pragma once

#include "plan/lowered.h"
#include "plan/storage.h"

namespace turbolstm {

// Turns a legal graph, with transforms lowered and the standard passes run, into groups of stages
// over buffers: pointwise nodes are fused into programs, products take bias and sum along, slices
// and concatenations become views, results overwrite operands that nobody else needs.
// Error, naming the node: a batch or step value that has not one feature axis, an output that holds
// indices, a matrix or table that is read with a delay, a mask or lengths without rows.
// reuse: see storage.h. boundary: for devices that take and give 16-bit numbers; an output that
// must be kept in fp32 all the same becomes a copy only by AddNarrowCopies.
LoweredGraph Lower(const Graph& graph, Precision precision, Reuse reuse = Reuse::kDeadBuffers,
                   BoundaryType boundary = BoundaryType::kFloat32);

}  // namespace turbolstm
