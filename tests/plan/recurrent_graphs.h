#pragma once

#include <string>
#include <vector>

#include "nn/recurrent.h"
#include "plan/comparison.h"

namespace turbolstm {

// A small network of this cell, of whatever sizes it needs.
RecurrentOptions SmallOptions(const std::string& cell);

// Recurrent layers "rnn" over the input "x", with the output "y" and the final states as outputs;
// transforms are lowered.
Graph RecurrentGraph(const RecurrentOptions& options);

std::vector<std::string> CellNames();

// Ragged inputs "x" far outside the range of the activations. Their products with the weights of
// the first layer are ones that every precision holds exactly, so that saturation is what is
// tested, not cancellation.
Bindings LargeBindings(const Graph& graph);

// Row b of values [T, B, n] or, for steps = 1, [B, n], one step after the other.
std::vector<float> RowOf(const std::vector<float>& values, int64_t steps, int64_t batch, int64_t b);

// The same, as they are bound.
std::vector<float> Narrow(const Array& array);

}  // namespace turbolstm
