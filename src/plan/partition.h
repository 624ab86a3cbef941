#pragma once

#include <cstdint>
#include <vector>

#include "ops/matmul/matmul.h"
#include "plan/buffer_places.h"
#include "plan/lowered.h"
#include "plan/row_layout.h"
#include "plan/task.h"
#include "plan/weight_slots.h"

namespace turbolstm {

struct PartitionOptions {
  int streams = 1;
  int64_t time_block = 0;    // steps a task covers; 0: as many as fit the cache
  int64_t row_tile = 0;      // sequences a loop's task covers; 0: an equal share for each stream
  bool save_memory = false;  // see BufferPlaces
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
  BufferPlaces places;
  int64_t time_block = 0;
  int64_t row_tile = 0;
};

// Cuts the groups into tasks on tiles of time and rows. Groups that walk the same way through time
// take turns block by block, so that what one writes is still in cache when the next reads it.
Partition PartitionWork(const LoweredGraph& graph, const RowLayout& layout,
                        const PartitionOptions& options);

}  // namespace turbolstm
