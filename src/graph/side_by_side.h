#pragma once

#include "graph/graph.h"

namespace turbolstm {

// Both networks as one, that runs whatever is independent at once: names are "first.<name>" and
// "second.<name>".
Graph SideBySide(const Graph& first, const Graph& second);

}  // namespace turbolstm
