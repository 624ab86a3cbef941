#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace turbolstm {

struct RandomGraphOptions {
  int operators = 24;       // about how many nodes besides inputs and parameters
  int32_t max_delay = 4;    // on cycles, inputs and everything else
  bool transforms = false;  // zoneout and variational dropout on some delayed edges
  bool reverse = true;      // some nodes walk in reverse
  bool delay_any = false;   // some batch and static values are read with a delay too
};

// A legal graph drawn from all operators: several inputs, cycles with and without matrix products,
// initial values (none, given, learned, computed), both directions, final states, reductions.
// Values stay small for bindings in [-1, 1], so that results can be compared in fp32.
// The same seed gives the same graph.
Graph RandomGraph(uint64_t seed, const RandomGraphOptions& options = {});

}  // namespace turbolstm
