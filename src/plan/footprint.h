#pragma once

#include <cstdint>

#include "plan/lowered.h"

namespace turbolstm {

// Bytes of Step values that are computed by the end of the forward pass and read after the
// beginning of the backward pass (or are outputs), full sequences; 0 without a loop that goes back.
// Between the last loop before the first of those and that loop, where fewest bytes are kept.
int64_t SavedBytes(const LoweredGraph& graph, int64_t steps, int64_t batch);

}  // namespace turbolstm
