#pragma once

#include <cstdint>

#include "graph/interpreter.h"

namespace turbolstm {

struct RandomBindingsOptions {
  int64_t steps = 5;      // T
  int64_t batch = 3;      // B
  bool ragged = true;     // lengths drawn from 0..T; else all T
  double resets = 0;      // share of steps with a reset
  bool training = false;  // random masks are drawn
};

// Values for every input and parameter of the graph: uniform in [-1, 1], matrices [.., k] in
// [-1, 1] / sqrt(k); indices within the tables that read them. Padded positions hold NaN and
// indices outside every table: whoever reads one is found out.
Bindings RandomBindings(const Graph& graph, uint64_t seed, const RandomBindingsOptions& options);

// Options of many kinds: sizes with 0 and 1, lengths on and off, resets on and off.
RandomBindingsOptions RandomBindingsOptionsFor(uint64_t seed);

}  // namespace turbolstm
