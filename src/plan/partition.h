#pragma once

#include <cstdint>
#include <vector>

#include "ops/matmul/matmul.h"
#include "plan/buffer_places.h"
#include "plan/lowered.h"
#include "plan/row_layout.h"
#include "plan/task.h"
#include "plan/weight_slots.h"
#include "plan/work_kind.h"

namespace turbolstm {

struct PartitionOptions {
  int streams = 1;
  int64_t time_block = 0;   // steps a task covers; 0: as many as fit the cache
  int64_t row_tile = 0;     // sequences a loop's task covers; 0: an equal share for each stream
  int64_t sum_block = 0;    // steps that a part of a sum over rows covers, a multiple of time_block
                            // (rounded up); 0: time_block
  int64_t step_parts = 1;   // parts of a block that is no loop: its steps need not wait for others
  bool one_by_one = false;  // a group begins when the one before it is done
  bool save_memory = false;  // see BufferPlaces
  bool operator==(const PartitionOptions&) const = default;
};

// A plan has at most so many blocks of time: scheduling takes time and memory as well. A given
// time_block that makes more is an Error.
inline constexpr int64_t kMostBlocks = 1 << 14;
inline constexpr int64_t kMostChosenBlocks = 256;

// What task i does, beside its tile.
struct Work {
  int32_t weight = -1;  // packs a part of a weight, or ...
  int32_t group = -1;   // ... runs a group; for a reduction the tile's rows are columns, or ...
  int32_t update = -1;  // ... changes elements of a parameter, which the tile's rows are
  PackingPart part{};   // of the weight
  bool first = true;    // a reduction's first part: writes its result instead of adding to it
};

struct Partition {
  std::vector<Task> tasks;  // in an order that is one correct way to run them
  std::vector<Work> work;
  WeightSlots weights;
  BufferPlaces places;
  PartitionOptions options;  // with what was chosen in place of 0
};

// What stands for a buffer in the tasks' accesses where groups run one by one: a task of a group
// writes a part of it, and reads what the group before wrote.
int32_t BarrierBuffer(const LoweredGraph& graph);

// What the options leave open, as PartitionWork takes it.
PartitionOptions Completed(const LoweredGraph& graph, const RowLayout& layout,
                           PartitionOptions options);

// Cuts the groups into tasks on tiles of time and rows. Groups that walk the same way through time
// take turns block by block, so that what one writes is still in cache when the next reads it.
Partition PartitionWork(const LoweredGraph& graph, const RowLayout& layout,
                        const PartitionOptions& options);

}  // namespace turbolstm
