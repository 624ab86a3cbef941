#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "ops/device_rows_cuda.h"
#include "ops/phased_loop/phased_step_cuda.h"

namespace turbolstm::cuda {

struct PhasedRun {
  struct Weights {
    const void* data = nullptr;  // row-major, of the operand's type
    int64_t stride = 0;
    bool transposed = false;
  };
  Sequences sequences;
  RowRange range;        // all steps
  bool reverse = false;  // from the last step to the first
  std::span<const Weights> products;
  std::span<const RowOperand> inputs;
  std::span<const RowOutput> outputs;
};

// The tile that ChoosePhasedTile finds for the current device; parts = 0 if there is none, or a
// kernel for each phase is faster.
PhasedTile PhasedTileOnThisDevice(const PhasedStep& step, int64_t batch);

// A loop over time with several products and sums a step as one kernel, which keeps the weights on
// its multiprocessors (see PersistentLoop).
class PhasedLoop {
 public:
  // Compiles for the current device.
  PhasedLoop(const PhasedStep& step, const PhasedTile& tile);

  const PhasedTile& tile() const { return tile_; }

  // Enqueues the loop. scratch: tile().exchange_bytes, 16-byte aligned. `fault` is set to -1 when a
  // block waits for another in vain.
  void Launch(const PhasedRun& run, void* scratch, int* fault, cudaStream_t stream) const;

 private:
  PhasedTile tile_;
  cudaKernel_t kernel_ = nullptr;
};

}  // namespace turbolstm::cuda
