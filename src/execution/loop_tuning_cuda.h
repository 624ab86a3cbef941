#pragma once

#include "ops/persistent_loop/tile_cuda.h"

namespace turbolstm::cuda {

// The way to deal out a loop that was measured to be the fastest on the current device: taken from
// the cache on disk where that has it for this loop, batch, share of the device and driver, else
// measured now and kept there. Which one wins may differ from measurement to measurement, and with
// it the order of sums; what is kept does not. parts = 0 if there is none.
LoopTile TunedTile(const LoopStep& step, int64_t batch, const LoopRoom& room, int64_t chains);

}  // namespace turbolstm::cuda
