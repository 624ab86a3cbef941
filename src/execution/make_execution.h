#pragma once

#include <memory>

#include "graph/graph.h"
#include "ops/matmul/split_product.h"
#include "plan/execution.h"
#include "plan/schedule_kind.h"
#include "turbolstm/device.h"

namespace turbolstm {

struct DeviceOptions {
  int index = 0;  // among the devices of its kind
  Precision precision = Precision::kFloat32;
  SplitRule split = SplitRule::kWherePays;  // of products in bf16x6
  BoundaryType boundary = BoundaryType::kFloat32;
  bool recompute = false;  // activations for the backward pass, see RecomputeActivations
  // Where loops over time have kernels that can stop and go on; else groups run in turns.
  ScheduleKind schedule = ScheduleKind::kAuto;
  // Loops with several products, or with sums over the units of a row, run as one kernel each.
  bool phased_loops = false;
  // Nothing but both directions of a layer runs at once. To be asked for otherwise: of the tests of
  // schedules, two of seven failed when they last ran on a GPU (docs/scheduling.md).
  bool in_turns = true;
  int64_t time_blocks = 0;  // into which loops are cut; 0: as the schedule has it
  bool tune = false;        // kernels of loops are chosen by measurement, which is kept on disk
};

// A graph on an NVIDIA GPU. Error: this build has no CUDA, or no such device answers.
std::unique_ptr<Execution> MakeCudaExecution(Graph graph, const DeviceOptions& options);

}  // namespace turbolstm
