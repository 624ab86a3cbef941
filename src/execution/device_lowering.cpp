#include "execution/device_lowering.h"

#include "graph/passes/lower_transforms.h"
#include "graph/passes/passes.h"
#include "plan/lowering.h"
#include "plan/narrow_copies.h"

namespace turbolstm {

LoweredGraph LowerForDevice(Graph graph, Precision precision, BoundaryType boundary) {
  LowerTransforms(&graph);
  RunPasses(&graph, StandardPasses());
  LoweredGraph lowered = Lower(graph, precision, Reuse::kNone, boundary);
  AddNarrowCopies(&lowered);
  return lowered;
}

}  // namespace turbolstm
