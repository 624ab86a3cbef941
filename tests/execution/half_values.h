#pragma once

#include "graph/interpreter.h"
#include "plan/comparison.h"

namespace turbolstm {

// Rounds numbers that are bound to Step inputs to the 16 bits of a precision, so that binding them
// in 16 bits changes nothing.
void RoundStepInputs(const Graph& graph, Precision precision, Bindings* bindings);

// RunAndRead, where inputs and outputs that the execution keeps in 16 bits are bound and read so.
Outputs RunAndReadHalf(Execution* execution, const Bindings& bindings);

}  // namespace turbolstm
