#pragma once

#include "graph/interpreter.h"

namespace turbolstm {

// Throws Error unless the operands of every node make it the shape it has, and no edge holds a
// transform.
void CheckInterpretable(const Graph& graph);

// Throws Error unless the bindings are complete, of the right shapes and within their bounds, and
// name nothing that the graph does not have. Values themselves (indices) are not looked at.
void CheckBindings(const Graph& graph, const Bindings& bindings);

}  // namespace turbolstm
