#pragma once

#include <cstdint>
#include <vector>

#include "ops/matmul/matmul.h"
#include "plan/lowered.h"
#include "plan/row_layout.h"
#include "plan/task.h"
#include "plan/weight_slots.h"

namespace turbolstm {

struct PartitionOptions {
  int streams = 1;
  int64_t time_block = 0;    // steps a task covers; 0: as many as fit the cache
  int64_t row_tile = 0;      // sequences a loop's task covers; 0: an equal share for each stream
  bool block_rings = false;  // see BlockRings
};

// Step buffers that only groups of one wave touch, each block before the next: of these the last
// few blocks are kept only. Block i lies where block i - count lay.
struct BlockRings {
  std::vector<bool> in_ring;  // by buffer; empty: none
  int64_t count = 0;          // blocks that are kept
  int64_t steps = 0;          // of a block

  bool Has(int32_t buffer) const {
    return !in_ring.empty() && in_ring[static_cast<size_t>(buffer)];
  }
  // Which of the kept blocks a step lies in.
  int64_t PlaceOf(int64_t time) const { return time / steps % count; }
};

// How the work of a group may be cut.
enum class WorkKind : uint8_t {
  kLoop,       // step after step; sequences are independent
  kSteps,      // rows of Step values are independent
  kRows,       // a Batch value
  kStatic,     // a value without rows
  kReduction,  // a sum over rows, which may be done in parts
  kWhole,      // needs whole sequences
};
WorkKind KindOfWork(const Group& group);

// What task i does, beside its tile.
struct Work {
  int32_t weight = -1;  // packs a part of a weight, or ...
  int32_t group = -1;   // ... runs a group; for a reduction the tile's rows are columns
  PackingPart part{};   // of the weight
  bool first = true;    // a reduction's first part: writes its result instead of adding to it
};

struct Partition {
  std::vector<Task> tasks;  // in an order that is one correct way to run them
  std::vector<Work> work;
  WeightSlots weights;
  BlockRings rings;
  int64_t time_block = 0;
  int64_t row_tile = 0;
};

// Cuts the groups into tasks on tiles of time and rows. Groups that walk the same way through time
// take turns block by block, so that what one writes is still in cache when the next reads it.
Partition PartitionWork(const LoweredGraph& graph, const RowLayout& layout,
                        const PartitionOptions& options);

}  // namespace turbolstm
