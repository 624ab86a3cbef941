#pragma once

#include "graph/interpreter.h"

namespace turbolstm {

// Throws Error unless the bindings are complete, of the right shapes and within their bounds, and
// name nothing that the graph does not have. Values themselves (indices) are not looked at.
void CheckBindings(const Graph& graph, const Bindings& bindings);

}  // namespace turbolstm
