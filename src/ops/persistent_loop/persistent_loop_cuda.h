#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>

#include "ops/device_rows_cuda.h"
#include "ops/persistent_loop/emitter_cuda.h"

namespace turbolstm::cuda {

// Where the values of a loop lie.
struct LoopRun {
  Sequences sequences;
  RowRange range;        // all steps
  bool reverse = false;  // from the last step to the first
  RowOperand x;          // what the product reads, delay 0; `init`: of the first step, else zeros
  const void* weight = nullptr;  // row-major, of the operand's type
  int64_t weight_stride = 0;
  bool weight_transposed = false;
  const float* bias = nullptr;         // [columns]; null: none
  std::span<const RowOperand> inputs;  // of the program
  std::span<const RowOutput> outputs;  // of the program, then the kept sums
};

// A loop over time with one matrix product a step, as one kernel that keeps the weights in shared
// memory: blocks own columns of the product, and tell each other through memory when their share of
// x is written. Every block is on the device at once.
class PersistentLoop {
 public:
  // Compiles for the current device. Check Fits() before anything else.
  PersistentLoop(const LoopStep& step, int64_t batch);

  // Whether weights and sequences can be dealt out to the device's multiprocessors, and a kernel a
  // step would not be faster.
  bool Fits() const { return tile_.parts > 0; }
  const LoopTile& tile() const { return tile_; }
  // Bytes of device memory that a run works in.
  int64_t ScratchBytes() const;

  // Enqueues the loop. `fault` is set to -1 when a block waits for another in vain.
  void Launch(const LoopRun& run, void* scratch, int* fault, cudaStream_t stream) const;

 private:
  LoopTile tile_;
  cudaKernel_t kernel_ = nullptr;
};

// Whether x and the weights can be read 16 bytes at a time, which the kernel wants.
bool IsAligned(const LoopStep& step, const RowOperand& x, const void* weight);

}  // namespace turbolstm::cuda
