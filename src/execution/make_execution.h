#pragma once

#include <memory>

#include "graph/graph.h"
#include "plan/execution.h"
#include "turbolstm/device.h"

namespace turbolstm {

struct DeviceOptions {
  int index = 0;  // among the devices of its kind
  Precision precision = Precision::kFloat32;
};

// A graph on an NVIDIA GPU. Error: this build has no CUDA, or no such device answers.
std::unique_ptr<Execution> MakeCudaExecution(Graph graph, const DeviceOptions& options);

}  // namespace turbolstm
