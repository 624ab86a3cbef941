#pragma once

#include <string>

#include "ops/persistent_loop/loop_step_cuda.h"
#include "ops/persistent_loop/tile_cuda.h"

namespace turbolstm::cuda {

// The source of the kernel "loop", for a compiler at run time.
std::string EmitLoop(const LoopStep& step, const LoopTile& tile);

}  // namespace turbolstm::cuda
