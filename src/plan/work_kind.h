#pragma once

#include <cstdint>

#include "plan/lowered.h"

namespace turbolstm {

// How the work of a group may be cut.
enum class WorkKind : uint8_t {
  kLoop,       // step after step; sequences are independent
  kSteps,      // rows of Step values are independent
  kRows,       // a Batch value
  kStatic,     // a value without rows
  kReduction,  // a sum over rows, which may be done in parts
  kWhole,      // needs whole sequences
};
WorkKind KindOfWork(const Group& group);

// Whether the group can go through time block by block.
bool IsBlockwise(const Group& group);

}  // namespace turbolstm
