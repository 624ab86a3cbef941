#pragma once

#include <string>

#include "graph/analysis.h"
#include "graph/graph.h"

namespace turbolstm {

// The graph in Graphviz's language, values flowing down. Delayed edges are dashed and labelled
// with their delay, initial values dotted. With an analysis, a box around each region that is more
// than one node or a loop says its kind, direction and levels.
std::string PrintDot(const Graph& graph, const Analysis* analysis = nullptr);

}  // namespace turbolstm
