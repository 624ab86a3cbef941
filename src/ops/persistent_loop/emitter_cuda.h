#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "ops/pointwise/kernel_cuda.h"

namespace turbolstm::cuda {

// A program's input that the product adds to, or is.
struct ProductInput {
  size_t input = 0;    // of the program
  int64_t column = 0;  // of the product's result, of the input's first element
  bool reads = false;  // the input's memory holds what the product is added to
  bool kept = false;   // the sum is stored, in the order of LoopStep::kept
};

// Where the rows of an input or output lie, seen from a step.
struct LoopRows {
  RowKind kind = RowKind::kStep;
  int64_t period = 0;     // steps that are held; 0: all
  int32_t delay = 0;      // 0 or 1
  bool forward = true;    // a delay reads the step before, else the one after
  bool has_init = false;  // read where there is no such step; else zeros
};

// One step of a loop: v = W x (+ bias), with x of the step before, then a program that reads v and
// computes x.
struct LoopStep {
  TypedProgram program;
  std::vector<LoopRows> inputs;   // of the program
  std::vector<LoopRows> outputs;  // of the program, then of the kept sums
  std::vector<bool> parts_of_x;   // of the program's outputs
  std::vector<ProductInput> products;
  std::vector<DType> kept;           // types of the outputs behind those of the program
  int64_t units = 0;                 // elements of a row of every output
  int64_t columns = 0;               // of v
  int64_t inner = 0;                 // elements of x
  LoopRows x;                        // delay 1
  DType operand = DType::kBFloat16;  // bfloat16, float16, or float32 for tf32
};

// How a loop is dealt out to blocks.
struct LoopTile {
  int64_t units = 16;  // of a block; a multiple of 8
  int64_t warps = 8;   // of a block that compute: an element a thread
  int64_t parts = 0;   // blocks of a group: they share its sequences
  int64_t groups = 0;
  int64_t tiles = 0;  // of kTileRows sequences, in a group
  int64_t shared_bytes = 0;
};

// Threads of a block: one more warp waits for other blocks, one tells them.
inline int64_t BlockThreads(const LoopTile& tile) {
  return 32 * (tile.warps + 2);
}

// Seconds of a step, roughly, and of a step as a product and a program of their own: from what
// shows on an H200.
double PersistentCost(const LoopStep& step, const LoopTile& tile);
double StepwiseCost(const LoopStep& step, int64_t batch);

// The best one of those that run at once on `processors` multiprocessors with `shared_limit` bytes
// of shared memory each; parts = 0 if there is none.
LoopTile ChooseTile(const LoopStep& step, int64_t batch, int64_t processors, int64_t shared_limit);

// The source of the kernel "loop", for a compiler at run time.
std::string EmitLoop(const LoopStep& step, const LoopTile& tile);

}  // namespace turbolstm::cuda
