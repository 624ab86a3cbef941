#include "plan/task_accesses.h"

#include <algorithm>

#include "plan/work_kind.h"

namespace turbolstm {

Access WholeAccess(const RowLayout& layout, const View& view) {
  return {view.buffer,
          0,
          std::max<int64_t>(1, layout.steps()),
          0,
          std::max<int64_t>(1, layout.batch()),
          view.column,
          view.column + view.width};
}

// The part of a view that a task on this tile touches, `shift` steps before or behind.
Access TaskAccesses::Tile(const View& view, const Task& task, const Group& group,
                          int64_t shift) const {
  const Buffer& source = graph_.buffers[static_cast<size_t>(view.buffer)];
  const WorkKind kind = KindOfWork(group);
  Access access = WholeAccess(layout_, view);
  if (source.domain == Domain::kStatic) {
    access.row_end = 1;
    access.time_end = 1;
    return access;
  }
  const bool whole = kind == WorkKind::kWhole;
  const bool all_rows = whole || kind == WorkKind::kReduction;
  if (!all_rows) {
    access.row_begin = task.row_begin;
    access.row_end = task.row_end;
  }
  if (source.domain == Domain::kBatch || source.ring > 0) {
    access.time_end = 1;
  } else if (!whole) {
    access.time_begin = std::max<int64_t>(0, task.time_begin + std::min<int64_t>(0, shift));
    access.time_end = std::min(layout_.steps(), task.time_end + std::max<int64_t>(0, shift));
  }
  return access;
}

void TaskAccesses::AddReads(const Group& group, const Stage& stage, Task* task) const {
  for (const Operand& operand : stage.inputs) {
    const int64_t shift = operand.direction == Direction::kForward ? -operand.delay : operand.delay;
    AddRead(Tile(operand.view, *task, group, shift), task);
    if (operand.init.buffer >= 0) AddRead(WholeHistory(operand.init), task);
  }
  if (stage.bias.buffer >= 0) AddRead(Tile(stage.bias, *task, group, 0), task);
}

void TaskAccesses::AddWrites(const Group& group, const Stage& stage, bool first, Task* task) const {
  for (const View& view : stage.outputs) {
    if (graph_.buffers[static_cast<size_t>(view.buffer)].local) continue;
    const Access access = KindOfWork(group) == WorkKind::kReduction ? Reduction(view, stage, *task)
                                                                    : Tile(view, *task, group, 0);
    if (stage.accumulate || !first) task->reads.push_back(access);
    task->writes.push_back(access);
  }
}

void TaskAccesses::AddRead(const Access& access, Task* task) const {
  if (!graph_.buffers[static_cast<size_t>(access.buffer)].local) task->reads.push_back(access);
}

Access TaskAccesses::WholeHistory(View init) const {
  init.column = 0;
  init.width = graph_.buffers[static_cast<size_t>(init.buffer)].width;
  return WholeAccess(layout_, init);
}

// A part of the first operand's columns gives a part of the result, row by row.
Access TaskAccesses::Reduction(const View& view, const Stage& stage, const Task& task) const {
  const int64_t columns = std::max<int64_t>(1, stage.inputs[0].view.width);
  const int64_t each = view.width / columns;
  Access access = WholeAccess(layout_, view);
  access.time_end = 1;
  access.row_end = 1;
  access.column_begin = task.row_begin * each;
  access.column_end = task.row_end * each;
  return access;
}

}  // namespace turbolstm
