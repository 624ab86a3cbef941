#pragma once

#include "graph/graph.h"
#include "plan/lowered.h"

namespace turbolstm {

// The graph made ready for a device whose products want both operands in one type: transforms
// expanded, standard passes, groups and buffers, 16-bit copies,
// padded rows.
// recompute: see RecomputeActivations.
LoweredGraph LowerForDevice(Graph graph, Precision precision,
                            BoundaryType boundary = BoundaryType::kFloat32, bool recompute = false);

}  // namespace turbolstm
