#pragma once

#include "graph/graph.h"
#include "nn/recurrent.h"

namespace turbolstm {

// The graph of layers alone: input "x", output "y". training: with the gradients of all parameters
// and of x, as if the loss were the sum of y.
Graph LayerGraph(const RecurrentOptions& options, bool training);

}  // namespace turbolstm
