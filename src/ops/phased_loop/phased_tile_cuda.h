#pragma once

#include "ops/phased_loop/phased_step_cuda.h"

namespace turbolstm::cuda {

// Warps of a block that multiply; one more clears what blocks have handed to each other.
constexpr int64_t kPhasedWarps = 8;
constexpr int64_t kPhasedThreads = 32 * (kPhasedWarps + 1);

// Bytes of what blocks hand to each other for a tile in a phase; 0 for a program.
int64_t ExchangeBytes(const PhasedStep& step, const PhasedTile& tile, size_t phase);
// Bytes of shared memory for the weights of a product.
int64_t WeightBytes(const PhasedStep& step, const PhasedTile& tile, const PhasedProduct& product);
// Floats of a row of the sums that the products of a block leave.
int64_t PhasedSumStride(const PhasedStep& step, const PhasedTile& tile);

// The way to deal out a loop, all of whose blocks run at once on `processors` multiprocessors with
// `shared_limit` bytes of shared memory each; parts = 0 if there is none. batch > 0.
PhasedTile ChoosePhasedTile(const PhasedStep& step, int64_t batch, int64_t processors,
                            int64_t shared_limit);

// Seconds of a step, roughly, and of a step as a kernel for each phase.
double PhasedCost(const PhasedStep& step, const PhasedTile& tile);
double KernelPerPhaseCost(const PhasedStep& step, int64_t batch);

}  // namespace turbolstm::cuda
