#pragma once

#include "graph/graph.h"

namespace turbolstm {

// Sets node->features and raises node->domain from the node's operands and attributes.
// Sources keep what they have. Throws Error naming the node and the shapes that came.
// The result's domain is the largest of the operands' (but for reductions) and never shrinks.
void InferShape(const Graph& graph, Node* node);

}  // namespace turbolstm
