#pragma once

#include "graph/graph.h"

namespace turbolstm {

// Values that a loop's program gets from its operands in one cheap instruction are computed again
// by a later loop that reads these operands too: 1 - z, where the backward pass reads z anyway. So
// they take up no memory. The graph must be sorted, and is so afterwards; its outputs do not
// change.
void RecomputeCheapValues(Graph* graph);

// The same for the tanh of a state that the later loop reads a step before, as LSTM's backward pass
// does: for devices where one more tanh costs less than memory for it. Likewise.
void RecomputeTanhOfStates(Graph* graph);

}  // namespace turbolstm
