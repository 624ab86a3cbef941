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
  // Steps [begin, end) of the walk run now, the blocks of a loop in their order.
  int64_t begin = 0;
  int64_t end = 0;
  void* carry = nullptr;  // tile().carry_bytes, the same for all of them; null: all steps run now
  RowOperand x;           // what the product reads; only its initial value is read from memory
  const void* weight = nullptr;  // row-major, of the operand's type
  int64_t weight_stride = 0;
  bool weight_transposed = false;
  const float* bias = nullptr;         // [columns]; null: none
  std::span<const RowOperand> inputs;  // of the program
  std::span<const RowOutput> outputs;  // of the program, then the kept sums
};

// Multiprocessors of the current device on which persistent loops run; 0 where they do not.
int64_t LoopProcessors();
// What a loop may have of the current device, of which it has so many multiprocessors.
LoopRoom RoomOnThisDevice(int64_t processors);
// The tile that ChooseTile finds for the current device, of which the loop has so many
// multiprocessors; parts = 0 if there is none.
LoopTile TileOnThisDevice(const LoopStep& step, int64_t batch, int64_t processors,
                          int64_t chains = 0);

// A loop over time with one matrix product a step, as one kernel that keeps the weights on its
// multiprocessors: blocks own columns of the product, and hand each other their share of x through
// memory, or those of a cluster through shared memory. All blocks of a group run at once.
class PersistentLoop {
 public:
  // Compiles for the current device.
  PersistentLoop(const LoopStep& step, const LoopTile& tile);

  const LoopTile& tile() const { return tile_; }

  // Enqueues the loop, or a block of its steps. scratch: tile().exchange_bytes, 16-byte aligned,
  // the same and untouched between the blocks of a loop. `fault` is set to -1 when a block waits
  // for another in vain.
  void Launch(const LoopRun& run, void* scratch, int* fault, cudaStream_t stream) const;

 private:
  LoopTile tile_;
  int64_t alignment_ = 0;
  cudaKernel_t kernel_ = nullptr;
};

}  // namespace turbolstm::cuda
