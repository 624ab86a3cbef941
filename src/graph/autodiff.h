#pragma once

#include <utility>
#include <vector>

#include "graph/graph.h"

namespace turbolstm {

// The cotangent of an output: a node of the same domain and features, or one that broadcasts.
struct Cotangent {
  NodeId output = kNoNode;
  NodeId cotangent = kNoNode;
};

// Appends to the graph the adjoint of every node between `wrt` and the outputs, in the same
// operators, and returns for each of `wrt` the node that holds the sum over outputs of
// cotangent * d output / d wrt, or kNoNode where no output depends on it.
// Every edge is reversed: an edge with delay d gives an adjoint edge with delay d whose reader
// walks the other way. The result may be differentiated again.
// Random masks, comparisons, indices and lengths are constants. Transforms must be lowered before.
std::vector<NodeId> Gradients(Graph* graph, const std::vector<Cotangent>& outputs,
                              const std::vector<NodeId>& wrt);

// A cotangent of ones.
NodeId Ones(Graph* graph);

}  // namespace turbolstm
