#pragma once

#include "plan/lowered.h"
#include "plan/row_layout.h"
#include "plan/task.h"

namespace turbolstm {

// All of a view.
Access WholeAccess(const RowLayout& layout, const View& view);

// What a group's task on this tile reads and writes of the graph's buffers; packed weights, which
// `packed` (weight -> Access) places, behind them. first: of a reduction the part that writes its
// result instead of adding to it.
class TaskAccesses {
 public:
  TaskAccesses(const LoweredGraph& graph, const RowLayout& layout)
      : graph_(graph), layout_(layout) {}

  template <typename Packed>
  void AddTo(const Group& group, bool first, Packed packed, Task* task) const {
    for (const Stage& stage : group.stages) {
      AddReads(group, stage, task);
      if (stage.weight >= 0) task->reads.push_back(packed(stage.weight));
      AddWrites(group, stage, first, task);
    }
  }

 private:
  void AddReads(const Group& group, const Stage& stage, Task* task) const;
  void AddWrites(const Group& group, const Stage& stage, bool first, Task* task) const;
  void AddRead(const Access& access, Task* task) const;
  Access Tile(const View& view, const Task& task, const Group& group, int64_t shift) const;
  Access WholeHistory(View init) const;
  Access Reduction(const View& view, const Stage& stage, const Task& task) const;

  const LoweredGraph& graph_;
  const RowLayout& layout_;
};

}  // namespace turbolstm
