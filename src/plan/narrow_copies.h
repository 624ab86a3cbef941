#pragma once

#include "plan/lowered.h"

namespace turbolstm {

// For devices whose products want both operands in one type. Where a product of a 16-bit graph
// reads a value that is kept in fp32 (an input, an output, a carried state), it reads a 16-bit copy
// instead: written beside the value by the program that computes it, else by a copying stage behind
// whatever computes it. Outputs of a graph with 16-bit boundaries are such copies, too, where the
// value itself must be kept in fp32. A state that a loop carries in fp32 is kept for a few steps
// only, when all others can read the copy of it; so is one that no product reads (LSTM's c), unless
// it has an initial value or its last value is asked for.
void AddNarrowCopies(LoweredGraph* graph);

}  // namespace turbolstm
