#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/task.h"

namespace turbolstm {

// result[j]: earlier tasks that task j comes after, ascending. Task j depends on an earlier task i
// when one writes what the other touches; dependencies that follow from others are left out where
// that is cheap to see, so only paths in the result mean something, not missing edges. About linear
// in the number of accesses when the boxes are tiles of their buffers. Error: a negative buffer.
std::vector<std::vector<int32_t>> DeriveDependencies(std::span<const Task> tasks);

}  // namespace turbolstm
