#include "execution/device_tasks.h"

#include <algorithm>
#include <optional>
#include <set>

#include "execution/narrow_statics.h"
#include "plan/partition.h"

namespace turbolstm {
namespace {

class Cutter {
 public:
  Cutter(const LoweredGraph& graph, const std::vector<DeviceLoop>& loops, int64_t steps,
         int64_t batch, const DeviceCut& cut)
      : graph_(graph), loops_(loops), steps_(steps), batch_(batch), cut_(cut) {
    result_.narrow_statics = NarrowStaticsOf(graph);
    FindTouched();
  }

  DeviceTasks Run() {
    for (size_t g = 0; g < graph_.groups.size(); ++g) {
      AddNarrow(graph_.groups[g]);
      AddGroup(g);
    }
    return std::move(result_);
  }

 private:
  const Buffer& buffer(const View& view) const {
    return graph_.buffers[static_cast<size_t>(view.buffer)];
  }

  // What persistent loops touch of Step values, and the direction in which the last of them walks.
  void FindTouched() {
    touched_.resize(graph_.buffers.size());
    for (size_t g = 0; g < graph_.groups.size(); ++g) {
      if (!loops_[g].persistent) continue;
      const Direction direction = graph_.groups[g].direction;
      ForEachView(graph_.groups[g], [&](const View& view) {
        touched_[static_cast<size_t>(view.buffer)].push_back({view, direction, g});
      });
    }
  }

  template <typename Visit>
  void ForEachView(const Group& group, Visit visit) const {
    for (const Stage& stage : group.stages) {
      for (const Operand& operand : stage.inputs) {
        if (operand.view.buffer >= 0) visit(operand.view);
      }
      for (const View& view : stage.outputs) visit(view);
    }
  }

  // In which order the blocks of a group run; nothing when it is not cut. A group is cut for the
  // loop that comes next, since that waits for it, or for the last one before it.
  std::optional<Direction> WalkOf(size_t g) const {
    const Group& group = graph_.groups[g];
    if (loops_[g].persistent) return group.direction;
    const WorkKind kind = KindOfWork(group);
    const bool sum = kind == WorkKind::kReduction && group.domain == Domain::kStep &&
                     group.stages[0].op == Op::kOuter;
    if (kind != WorkKind::kSteps && !(sum && cut_.sums)) return {};
    std::optional<Direction> before, behind;
    size_t last = 0, next = graph_.groups.size();
    ForEachView(group, [&](const View& view) {
      for (const Touch& touch : touched_[static_cast<size_t>(view.buffer)]) {
        if (!Overlaps(touch.view, view)) continue;
        if (touch.group < g && (!before || touch.group > last)) {
          last = touch.group;
          before = touch.direction;
        }
        if (touch.group > g && touch.group < next) {
          next = touch.group;
          behind = touch.direction;
        }
      }
    });
    return sum || before ? before : behind;
  }

  // --- Tasks.

  void AddNarrow(const Group& group) {
    for (const Stage& stage : group.stages) {
      for (const View& view : NarrowStaticsOf(graph_, stage)) {
        const int32_t copy = NarrowOf(view);
        if (!narrow_made_.insert(copy).second) continue;
        Task task;
        task.name = "narrow " + buffer(view).name;
        task.group = copy - static_cast<int32_t>(graph_.buffers.size());
        task.row_end = 1;
        AddAccess(view, 0, 1, &task.reads);
        task.writes.push_back(Whole(copy, view.width));
        Add(std::move(task), DevicePart::kNarrow, false);
      }
    }
  }

  void AddGroup(size_t g) {
    const std::optional<Direction> walk = cut_.block > 0 ? WalkOf(g) : std::nullopt;
    if (!walk) return AddParts(g, 0, steps_, false);
    const int64_t blocks = (steps_ + cut_.block - 1) / cut_.block;
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t block = *walk == Direction::kForward ? i : blocks - 1 - i;
      AddParts(g, block * cut_.block, std::min(steps_, (block + 1) * cut_.block), i > 0);
    }
  }

  void AddParts(size_t g, int64_t begin, int64_t end, bool behind_first) {
    const Group& group = graph_.groups[g];
    Task task;
    task.name = group.name;
    task.group = static_cast<int32_t>(g);
    task.time_begin = begin;
    task.time_end = end;
    task.row_end = batch_;
    if (!loops_[g].persistent) {
      const bool adds = behind_first && KindOfWork(group) == WorkKind::kReduction;
      for (const Stage& stage : group.stages) AddStage(group, stage, adds, &task);
      return Add(std::move(task), DevicePart::kGroup, adds);
    }
    Task product = task;
    product.name += ", product";
    for (const Stage& stage : group.stages) {
      const bool apart = loops_[g].product_is_read && stage.kind == Stage::Kind::kMatMul;
      if (apart) AddStage(group, stage, false, &product);
      AddWeight(stage, &task);
      if (!apart) AddStage(group, stage, false, &task);
    }
    const Access state = Whole(result_.StateBuffer(graph_, g), 1);
    task.reads.push_back(state);
    task.writes.push_back(state);
    Add(std::move(task), DevicePart::kLoop, false);
    if (loops_[g].product_is_read) Add(std::move(product), DevicePart::kProduct, false);
  }

  void Add(Task task, DevicePart part, bool adds) {
    result_.tasks.push_back(std::move(task));
    result_.parts.push_back(part);
    result_.adds.push_back(adds);
  }

  // --- What tasks touch.

  static Access Whole(int32_t id, int64_t width) { return {id, 0, 1, 0, 1, 0, width}; }

  int32_t NarrowOf(const View& view) const {
    const auto& all = result_.narrow_statics;
    const auto found = std::find(all.begin(), all.end(), view);
    return result_.NarrowBuffer(graph_, static_cast<size_t>(found - all.begin()));
  }

  // Rows of the steps [begin, end) of a value that has them all.
  void AddAccess(const View& view, int64_t begin, int64_t end, std::vector<Access>* to) const {
    if (view.buffer < 0) return;
    const Buffer& source = buffer(view);
    Access access{view.buffer,
                  0,
                  1,
                  0,
                  source.domain == Domain::kStatic ? 1 : batch_,
                  view.column,
                  view.column + view.width};
    if (source.domain == Domain::kStep && source.ring == 0 && !source.local) {
      access.time_begin = std::max<int64_t>(0, begin);
      access.time_end = std::min(steps_, end);
    }
    to->push_back(access);
  }

  void AddStage(const Group& group, const Stage& stage, bool adds, Task* task) const {
    const WorkKind kind = KindOfWork(group);
    const bool whole = kind == WorkKind::kWhole;
    const int64_t begin = whole ? 0 : task->time_begin;
    const int64_t end = whole ? steps_ : task->time_end;
    for (const Operand& operand : stage.inputs) {
      const bool forward = operand.direction == Direction::kForward;
      AddAccess(operand.view, begin - (forward ? operand.delay : 0),
                end + (forward ? 0 : operand.delay), &task->reads);
      View init = operand.init;  // with its history
      if (init.buffer < 0) continue;
      init.column = 0;
      init.width = buffer(init).width;
      AddAccess(init, 0, steps_, &task->reads);
    }
    AddWeight(stage, task);
    for (const View& view : stage.outputs) {
      AddAccess(view, begin, end, &task->writes);
      if (stage.accumulate || adds) task->reads.push_back(task->writes.back());
    }
  }

  void AddWeight(const Stage& stage, Task* task) const {
    AddAccess(stage.bias, 0, 1, &task->reads);
    if (stage.weight < 0) return;
    AddAccess(graph_.weights[static_cast<size_t>(stage.weight)].matrix, 0, 1, &task->reads);
    for (const View& view : NarrowStaticsOf(graph_, stage)) {
      task->reads.push_back(Whole(NarrowOf(view), view.width));
    }
  }

  struct Touch {
    View view;
    Direction direction;
    size_t group;
  };

  const LoweredGraph& graph_;
  const std::vector<DeviceLoop>& loops_;
  const int64_t steps_, batch_;
  const DeviceCut cut_;
  std::vector<std::vector<Touch>> touched_;  // by buffer
  std::set<int32_t> narrow_made_;
  DeviceTasks result_;
};

}  // namespace

DeviceTasks CutForDevice(const LoweredGraph& graph, const std::vector<DeviceLoop>& loops,
                         int64_t steps, int64_t batch, const DeviceCut& cut) {
  return Cutter(graph, loops, steps, batch, cut).Run();
}

}  // namespace turbolstm
