#pragma once

#include <vector>

#include "graph/graph.h"

namespace turbolstm {

// Sets node->features and raises node->domain from the node's operands and attributes.
// Sources keep what they have. Throws Error naming the node and the shapes that came.
// The result's domain is the largest of the operands' (but for reductions) and never shrinks.
void InferShape(const Graph& graph, Node* node);

// What a new node is made of; features are inferred unless the operator keeps what is given.
struct NewNode {
  Op op;
  Domain domain = Domain::kStatic;  // at the least
  Direction direction = Direction::kForward;
  std::vector<Edge> inputs = {};
  Attributes attributes = {};
  std::vector<int64_t> features = {};
};

// Adds the node with its shape inferred; errors as InferShape.
NodeId AddInferred(Graph* graph, NewNode description);

}  // namespace turbolstm
