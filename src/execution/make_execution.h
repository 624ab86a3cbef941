#pragma once

#include <memory>

#include "graph/graph.h"
#include "ops/matmul/split_product.h"
#include "plan/execution.h"
#include "turbolstm/device.h"

namespace turbolstm {

struct DeviceOptions {
  int index = 0;  // among the devices of its kind
  Precision precision = Precision::kFloat32;
  SplitRule split = SplitRule::kWherePays;  // of products in bf16x6
  BoundaryType boundary = BoundaryType::kFloat32;
  bool recompute = false;  // activations for the backward pass, see RecomputeActivations
};

// A graph on an NVIDIA GPU. Error: this build has no CUDA, or no such device answers.
std::unique_ptr<Execution> MakeCudaExecution(Graph graph, const DeviceOptions& options);

}  // namespace turbolstm
