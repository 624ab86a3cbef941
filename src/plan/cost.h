#pragma once

#include "plan/lowered.h"
#include "plan/row_layout.h"
#include "plan/task.h"

namespace turbolstm {

// What one core does, as the planner assumes it. Constants, so that a plan is a function of the
// graph and the shape. They were fitted to single tasks on the machine of docs/scheduling.md.
struct CostModel {
  double product_flops = 2.3e11;  // a second, in matrix products with many rows
  double pointwise_flops = 6e10;  // a second, in fused programs
  double bytes = 4e10;            // a second, of operands that lie in the second-level cache
  double far_bytes = 1e11;        // a second, beside that, of those that do not
  double weights = 1.4e11;        // bytes a second of weights, which a call reads once
  double far_weights = 1.05e11;   // of weights that the second-level cache does not hold
  double sums = 1.2e11;           // bytes a second of a sum that is read and written again
  double packing = 1e10;          // elements a second
  double call = 1e-7;             // seconds a stage takes beyond its work
  double task = 4e-7;             // seconds a task takes beyond its stages
  double cache = 1 << 20;         // bytes of the second-level cache
};

// Estimated seconds of a group's task on its tile. working_set: bytes that the groups touch that
// take turns with it, before it is its turn again; what of it the cache cannot hold comes from
// afar.
double TaskCost(const LoweredGraph& graph, const RowLayout& layout, const Task& task,
                double working_set, const CostModel& model = {});

// Of a change of so many elements of a parameter: an optimiser keeps two numbers for each.
double UpdateCost(int64_t elements, const CostModel& model = {});

// Bytes of the packed weights that the groups multiply by.
double BytesOfWeights(const LoweredGraph& graph, const std::vector<int32_t>& groups);

// Bytes of a row of everything that the groups touch step by step.
double RowBytes(const LoweredGraph& graph, const std::vector<int32_t>& groups);

}  // namespace turbolstm
