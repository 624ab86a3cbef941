#pragma once

#include <string>

#include "ops/persistent_loop/loop_step_cuda.h"
#include "ops/persistent_loop/tile_cuda.h"

namespace turbolstm::cuda {

// The kernel of a loop and what moves its inputs and outputs: kernel_text_cuda.h with what the
// loop's program makes of it.
std::string EmitKernel(const LoopStep& step, const LoopTile& tile);

}  // namespace turbolstm::cuda
