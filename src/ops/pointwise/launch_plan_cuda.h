#pragma once

#include <cstddef>
#include <vector>

#include "ops/pointwise/emitter_cuda.h"

namespace turbolstm::cuda {

struct LaunchShape {
  unsigned x = 1, y = 1, z = 1;
};

// What one run hands to the driver.
struct LaunchPlan {
  KernelVariant variant = KernelVariant::kGeneral;
  LaunchShape grid, block;
  std::vector<std::byte> arguments;  // PlainArgs or GeneralArgs
};

// Chooses the kernel for a run that is not empty. Error if rows or types are not those of the
// program.
LaunchPlan PlanLaunch(const TypedProgram& typed, const PointwiseRun& run);

}  // namespace turbolstm::cuda
