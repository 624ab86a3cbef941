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
  int64_t units = 16;     // of a block: 8, 16 or 32
  int64_t warps = 8;      // of a block that multiply
  int64_t finishing = 0;  // that run the program, an element a thread; 0: those that multiply
  int64_t splits = 1;  // blocks that share columns, each with a share of the product's inner axis
  int64_t parts = 0;   // blocks of a group: they share its sequences
  int64_t groups = 0;
  int64_t tiles = 0;           // in a group
  int64_t together = 1;        // tiles that take a turn: 1, or 2 where there are as many
  int64_t sharing_warps = 8;   // of a cluster's block, that share the product's inner axis
  int64_t rows = kTileRows;    // that there are of a tile at most: others are not handed over
  int64_t fetch_ahead = 1;     // turns for which inputs are under way before they are needed
  int64_t at_once = 1;         // blocks along the inner axis of x that a warp has in registers
  int64_t held = 0;            // pieces of 16 bytes of weights that a lane has in registers; the
                               // others are in shared memory
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
  return 32 * (tile.warps + tile.finishing + kMovingWarps + ClearingWarps(tile));
}

// Of a thread of each role; where there are no roles, all have the first.
struct RoleRegisters {
  int64_t multiplier = 0, finisher = 0, mover = 0;
};
RoleRegisters RegistersOf(const LoopTile& tile);

// Places for what blocks hand over of a tile through memory, step after step in turn, and the bytes
// of each.
int64_t StepSlots(const LoopTile& tile);
int64_t SlotBytes(const LoopStep& step, const LoopTile& tile);
// Where warps have roles: turns whose inputs are in shared memory, and turns that sums wait there
// for those of other blocks.
int64_t InputPlaces(const LoopTile& tile);
int64_t DeferredTurns(const LoopTile& tile);
// Whether who multiplies waits until the block's own share of x is handed over before looking for
// x: else the waiting of all blocks would hold up what they wait for.
bool IsGated(const LoopTile& tile);

// Blocks of 64 bytes along the product's inner axis, where every part of x is padded to whole
// blocks of threads.
int64_t InnerBlocks(const LoopStep& step, const LoopTile& tile);

// Such blocks that a warp multiplies, and the pieces of 16 bytes of weights of one of its lanes.
int64_t WarpBlocks(const LoopStep& step, const LoopTile& tile);
int64_t Pieces(const LoopStep& step, const LoopTile& tile);

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
  bool clusters = false;     // blocks of a cluster reach each other's; and registers can go from
                             // warp to warp
};

// The ways to deal out a loop. batch > 0. chains: 0, or those of another tile, whose bits the loop
// is to have.
std::vector<LoopTile> Tiles(const LoopStep& step, int64_t batch, const LoopRoom& room,
                            int64_t chains = 0);

// The best one of them; parts = 0 if there is none.
LoopTile ChooseTile(const LoopStep& step, int64_t batch, const LoopRoom& room, int64_t chains = 0);

}  // namespace turbolstm::cuda
