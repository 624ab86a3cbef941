#pragma once

#include <cstdint>
#include <vector>

#include "ops/persistent_loop/loop_step_cuda.h"

namespace turbolstm::cuda {

// How blocks of a group hand values to each other from step to step.
enum class Exchange {
  kMemory,   // all of x to all, through the device's memory
  kGather,   // all of x to all, within a cluster, whose blocks write to each other's shared memory
  kScatter,  // within a cluster, sums of products of own shares of x: fewer bytes where x is wide
};

// Sequences that a block works on at once: the rows of a tensor core's product. Half as many in
// some clusters.
constexpr int64_t kTileRows = 16;

// How a loop is dealt out to blocks.
struct LoopTile {
  Exchange exchange = Exchange::kMemory;
  int64_t tile_rows = kTileRows;
  int64_t units = 16;  // of a block: 8, 16 or 32
  int64_t warps = 8;   // of a block that compute: an element a thread
  int64_t parts = 0;   // blocks of a group: they share its sequences
  int64_t groups = 0;
  int64_t tiles = 0;           // in a group
  int64_t together = 1;        // tiles that take a turn: 1, or 2 where there are as many
  int64_t sharing_warps = 8;   // of a cluster's block, that share the product's inner axis
  bool held = false;           // weights are held in registers, else in shared memory
  int64_t shared_bytes = 0;    // of a block
  int64_t chains = 1;          // sums of a warp, added up last: they decide the result's bits; in
                               // clusters, a number of their own for each order of sums
  int64_t exchange_bytes = 0;  // of all blocks together, in device memory
  int64_t carry_bytes = 0;     // likewise, of a loop that runs in blocks of steps

  bool operator==(const LoopTile&) const = default;
};

// Warps that share the product's inner axis; where there are more, they share its columns.
constexpr int64_t kInnerWarps = 8;
// Warps of a block beside those that compute: some move inputs and outputs, and one clears what
// blocks hand to each other through memory.
constexpr int64_t kMovingWarps = 3;
inline int64_t ClearingWarps(const LoopTile& tile) {
  return tile.exchange == Exchange::kMemory ? 1 : 0;
}
inline int64_t BlockThreads(const LoopTile& tile) {
  return 32 * (tile.warps + kMovingWarps + ClearingWarps(tile));
}

// Blocks of 64 bytes along the product's inner axis, where every part of x is padded to whole
// blocks of threads.
int64_t InnerBlocks(const LoopStep& step, const LoopTile& tile);

// Of clusters: units whose share of x a block multiplies, 64-byte blocks of that, bytes of what
// arrives at a block for a row of a tile, and of the place for a tile.
int64_t UnitsOfX(const LoopTile& tile);
int64_t BlocksOfX(const LoopStep& step, const LoopTile& tile);
int64_t ArrivingBytes(const LoopStep& step, const LoopTile& tile);
int64_t InboxBytes(const LoopStep& step, const LoopTile& tile);
int64_t ArrivalStride(const LoopStep& step, const LoopTile& tile);

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
// Seconds until the first step of a launch: weights are loaded.
double StartCost(const LoopStep& step, const LoopTile& tile);
double StepwiseCost(const LoopStep& step, int64_t batch);

// What a loop may have of a device.
struct LoopRoom {
  int64_t processors = 0;    // multiprocessors: all blocks that need each other run on them at once
  int64_t shared_limit = 0;  // bytes of shared memory of each
  bool clusters = false;     // blocks of a cluster reach each other's
};

// The ways to deal out a loop. batch > 0. chains: 0, or those of another tile, whose bits the loop
// is to have.
std::vector<LoopTile> Tiles(const LoopStep& step, int64_t batch, const LoopRoom& room,
                            int64_t chains = 0);

// The best one of them; parts = 0 if there is none.
LoopTile ChooseTile(const LoopStep& step, int64_t batch, const LoopRoom& room, int64_t chains = 0);

}  // namespace turbolstm::cuda
