#pragma once

#include <string>

#include "ops/phased_loop/phased_step_cuda.h"

namespace turbolstm::cuda {

// The source of the kernel "loop", for a compiler at run time.
std::string EmitPhasedLoop(const PhasedStep& step, const PhasedTile& tile);

}  // namespace turbolstm::cuda
