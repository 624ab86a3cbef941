#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <span>

#include "ops/device_rows_cuda.h"
#include "ops/persistent_loop/tile_cuda.h"

namespace turbolstm::cuda {

// Where the values of a loop lie.
struct LoopRun {
  Sequences sequences;
  RowRange range;        // all steps
  bool reverse = false;  // from the last step to the first
  RowOperand x;          // what the product reads; only its initial value is read from memory
  const void* weight = nullptr;  // row-major, of the operand's type
  int64_t weight_stride = 0;
  bool weight_transposed = false;
  const float* bias = nullptr;         // [columns]; null: none
  std::span<const RowOperand> inputs;  // of the program
  std::span<const RowOutput> outputs;  // of the program, then the kept sums
};

// The tile that ChooseTile finds for the current device; parts = 0 where persistent loops do not
// run.
LoopTile TileOnThisDevice(const LoopStep& step, int64_t batch);

// A loop over time with one matrix product a step, as one kernel that keeps the weights on its
// multiprocessors: blocks own columns of the product, and hand each other their share of x through
// memory. Every block is on the device at once.
class PersistentLoop {
 public:
  // Compiles for the current device.
  PersistentLoop(const LoopStep& step, const LoopTile& tile);

  const LoopTile& tile() const { return tile_; }

  // Enqueues the loop. scratch: tile().exchange_bytes, 16-byte aligned. `fault` is set to -1 when a
  // block waits for another in vain.
  void Launch(const LoopRun& run, void* scratch, int* fault, cudaStream_t stream) const;

 private:
  LoopTile tile_;
  cudaKernel_t kernel_ = nullptr;
};

// Whether all rows of inputs and outputs begin at multiples of 16 bytes, as LoopStep::aligned says.
bool IsAligned(const LoopRun& run);

}  // namespace turbolstm::cuda
