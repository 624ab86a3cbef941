#include "execution/device_lowering.h"

#include "execution/padded_rows.h"
#include "graph/passes/lower_transforms.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "plan/lowering.h"
#include "plan/narrow_copies.h"
#include "plan/recompute.h"

namespace turbolstm {

LoweredGraph LowerForDevice(Graph graph, Precision precision, BoundaryType boundary,
                            bool recompute) {
  LowerTransforms(&graph);
  RunPasses(&graph, StandardPasses());
  if (recompute) RecomputeActivations(&graph);
  RemoveDeadNodes(&graph);
  RecomputeTanhOfStates(&graph);
  LoweredGraph lowered = Lower(graph, precision, Reuse::kNone, boundary);
  AddNarrowCopies(&lowered);
  PadRows(&lowered);
  return lowered;
}

}  // namespace turbolstm
