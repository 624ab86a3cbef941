#pragma once

#include <vector>

#include "graph/graph.h"

namespace turbolstm {

// How often each node is read (initial values and outputs included).
std::vector<int32_t> UseCounts(const Graph& graph);

// Every reader of `from` (outputs and initial values included) reads `to` instead. The name moves
// along if `to` has none.
void ReplaceUses(Graph* graph, NodeId from, NodeId to);

// Drops what no output needs, except inputs and parameters, and renumbers the rest so that a node
// stands behind what it reads without delay.
void RemoveDeadNodes(Graph* graph);

}  // namespace turbolstm
