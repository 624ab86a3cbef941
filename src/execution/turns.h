#pragma once

#include <cstdint>
#include <vector>

#include "plan/lowered.h"

namespace turbolstm {

// When each group runs on a device, counted from 0. Two neighbouring loops of which neither touches
// what the other writes, as those of both directions of a layer, have the same turn: they may run
// at once. Every other group has a turn of its own.
std::vector<int64_t> Turns(const LoweredGraph& graph);

}  // namespace turbolstm
