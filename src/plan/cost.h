#pragma once

#include "plan/lowered.h"

namespace turbolstm {

// What one core does, as the planner assumes it.
struct CostModel {
  double product_flops = 8e10;    // a second, in matrix products
  double pointwise_flops = 2e10;  // a second, in fused programs
  double bytes = 1e10;            // a second, to and from memory
  double call = 1e-7;             // seconds a stage takes beyond its work
};

// Estimated seconds of a stage on `rows` rows, in `calls` calls.
double StageCost(const LoweredGraph& graph, const Stage& stage, int64_t rows, int64_t calls,
                 const CostModel& model = {});

}  // namespace turbolstm
