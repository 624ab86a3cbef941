#pragma once

#include <optional>
#include <vector>

#include "ops/phased_loop/phased_step_cuda.h"
#include "plan/lowered.h"

namespace turbolstm::cuda {

// A loop that a phased kernel can run: every stage is a program, a product or a sum over the units
// of a row, and all vectors are whole numbers of times as wide as the narrowest.
struct PhasedMatch {
  PhasedStep step;
  std::vector<Operand> inputs;  // of a run
  std::vector<View> outputs;
  std::vector<const Stage*> products;
};

// Nothing for other loops, and in IEEE fp32, which no matrix unit multiplies.
std::optional<PhasedMatch> MatchPhasedLoop(const LoweredGraph& graph, const Group& group);

}  // namespace turbolstm::cuda
