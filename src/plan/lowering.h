#pragma once

#include "plan/lowered.h"

namespace turbolstm {

// Turns a legal graph, with transforms lowered and the standard passes run, into groups of stages
// over buffers: pointwise nodes are fused into programs, products take bias and sum along, slices
// and concatenations become views, results overwrite operands that nobody else needs.
LoweredGraph Lower(const Graph& graph, Precision precision);

}  // namespace turbolstm
