#pragma once

#include <string>

#include "ops/pointwise/emitter_cuda.h"

namespace turbolstm::cuda {

// The kernel that runs the loop over time of a program with a scan_input as a parallel prefix, and
// the function it is made of; they call the program's compute function. Each block owns a few
// elements, and its threads a part of their steps: a thread first finds what its steps make of any
// state, state' = a * state + c; from these the block finds the state that every part begins with;
// then the thread runs the program on its steps.
std::string EmitScanKernel(const NamedTypedProgram& named);

}  // namespace turbolstm::cuda
