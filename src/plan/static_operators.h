#pragma once

#include <vector>

#include "plan/lowered.h"

namespace turbolstm {

struct RunState;

// Evaluates an operator on Static values: operands and result hold all their elements, fp32.
// Error: an operator that has none.
void EvaluateStatic(const RunState& state, const Stage& stage,
                    const std::vector<const float*>& operands, float* result);

}  // namespace turbolstm
