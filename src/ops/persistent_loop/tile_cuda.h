#pragma once

#include <cstdint>
#include <vector>

#include "ops/persistent_loop/loop_step_cuda.h"

namespace turbolstm::cuda {

// How a loop is dealt out to blocks.
struct LoopTile {
  int64_t units = 16;  // of a block: 8, 16 or 32
  int64_t warps = 8;   // of a block that compute: an element a thread
  int64_t parts = 0;   // blocks of a group: they share its sequences
  int64_t groups = 0;
  int64_t tiles = 0;           // of kTileRows sequences, in a group
  int64_t together = 1;        // tiles that take a turn: 1, or 2 where there are as many
  bool held = false;           // weights are held in registers, else in shared memory
  int64_t shared_bytes = 0;    // of a block
  int64_t chains = 1;          // sums of a warp, added up last: they decide the result's bits
  int64_t exchange_bytes = 0;  // of all blocks together, in device memory
  int64_t carry_bytes = 0;     // likewise, of a loop that runs in blocks of steps
};

// Warps that share the product's inner axis; where there are more, they share its columns.
constexpr int64_t kInnerWarps = 8;
// Warps of a block beside those that compute: some move inputs and outputs, and one clears what
// blocks hand to each other.
constexpr int64_t kMovingWarps = 3;
inline int64_t BlockThreads(const LoopTile& tile) {
  return 32 * (tile.warps + kMovingWarps + 1);
}

// Blocks of 64 bytes along the product's inner axis, where every part of x is padded to whole
// blocks of threads.
int64_t InnerBlocks(const LoopStep& step, const LoopTile& tile);

// Floats of a row of partial sums of this width.
int64_t SumStride(int64_t width);

// Bytes of what a block reads of a step's inputs, and writes of its outputs: those that lie in
// memory step by step and are not carried from step to step by the block itself.
bool IsStaged(const LoopStep& step, size_t input);
bool IsStored(const LoopStep& step, size_t output);
int64_t InputBytes(const LoopStep& step, const LoopTile& tile);
int64_t OutputBytes(const LoopStep& step, const LoopTile& tile);

// Seconds of a step, roughly, and of a step as a product and a program of their own: from what
// shows on an H200.
double PersistentCost(const LoopStep& step, const LoopTile& tile);
double StepwiseCost(const LoopStep& step, int64_t batch);

// The ways to deal out a loop whose blocks all run at once on `processors` multiprocessors with
// `shared_limit` bytes of shared memory each. batch > 0. chains: 0, or those of another tile, whose
// bits the loop is to have.
std::vector<LoopTile> Tiles(const LoopStep& step, int64_t batch, int64_t processors,
                            int64_t shared_limit, int64_t chains = 0);

// The best one of them; parts = 0 if there is none.
LoopTile ChooseTile(const LoopStep& step, int64_t batch, int64_t processors, int64_t shared_limit,
                    int64_t chains = 0);

}  // namespace turbolstm::cuda
