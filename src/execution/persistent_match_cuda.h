#pragma once

#include <optional>
#include <vector>

#include "ops/persistent_loop/tile_cuda.h"
#include "plan/lowered.h"

namespace turbolstm::cuda {

// A loop that one persistent kernel can run: a product, and a program that reads its result and
// computes what the product reads a step later.
struct LoopMatch {
  LoopStep step;
  const Stage* product = nullptr;
  const Stage* program = nullptr;
  // Others read the product of a step's own x, of which the loop computes that of the step before:
  // it is to be computed behind the loop, for all steps.
  bool product_is_read = false;
  Operand x;               // read one step behind, in the loop's direction
  std::vector<View> kept;  // where sums are stored that others read, in the order of step.kept
};

// Nothing for other loops, and in IEEE fp32, which no matrix unit multiplies.
std::optional<LoopMatch> MatchPersistentLoop(const LoweredGraph& graph, const Group& group);

}  // namespace turbolstm::cuda
