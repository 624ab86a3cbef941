#pragma once

#include <string>
#include <vector>

#include "graph/interpreter.h"

namespace turbolstm {

// Of a float64 central difference against a gradient, relative.
inline constexpr double kGradientTolerance = 1e-6;

// Compares Gradients with central differences along one random direction for each float input and
// parameter of the graph: L is the sum over outputs of <output, random cotangent>. Returns what
// differs, a line each; empty when all agree.
// order 2 checks the gradient of the gradient: L is the sum of <gradient, random cotangent> then.
std::string CheckGradients(const Graph& graph, const Bindings& bindings, uint64_t seed,
                           int order = 1);

}  // namespace turbolstm
