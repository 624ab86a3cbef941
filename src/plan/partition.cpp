#include "plan/partition.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "plan/cost.h"

namespace turbolstm {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Rows of a block whose widest value takes a megabyte: what a second-level cache holds.
int64_t RowsInCache(const LoweredGraph& graph) {
  int64_t width = 1;
  for (const Buffer& buffer : graph.buffers) {
    if (buffer.domain == Domain::kStep) width = std::max(width, buffer.width);
  }
  constexpr int64_t kElements = (int64_t{1} << 20) / sizeof(float);
  return std::clamp<int64_t>(kElements / width, 128, 4096);
}

// Seconds an element takes to be packed.
constexpr double kPackingCost = 1e-10;

// The waves of groups that take turns block by block.
class Partitioner {
 public:
  Partitioner(const LoweredGraph& graph, const RowLayout& layout, const PartitionOptions& options)
      : graph_(graph), layout_(layout), options_(options), users_(graph.weights.size(), 0) {
    TL_CHECK(options.streams >= 1 && options.time_block >= 0 && options.row_tile >= 0,
             "[plan] got {} streams, time block {} and row tile {}, wants at least 1, 0 and 0",
             options.streams, options.time_block, options.row_tile);
    result_.weights = WeightSlots(graph);
    for (const Group& g : graph.groups) {
      ForEachWeight(g, [&](int32_t weight) { ++users_[static_cast<size_t>(weight)]; });
    }
    result_.time_block = options.time_block;
    if (result_.time_block == 0) {
      result_.time_block = AutomaticBlock();
    }
    result_.row_tile = options.row_tile;
    if (result_.row_tile == 0) {
      result_.row_tile = std::max<int64_t>(1, CeilDiv(layout.batch(), options.streams));
    }
  }

  // With several streams there are several blocks, so that products can run beside a loop.
  int64_t AutomaticBlock() const {
    constexpr int64_t kLeastBlocks = 8;
    const int64_t in_cache = RowsInCache(graph_) / std::max<int64_t>(1, layout_.batch());
    const int64_t shared =
        options_.streams > 1 ? CeilDiv(layout_.steps(), kLeastBlocks) : layout_.steps();
    return std::max<int64_t>(1, std::min(in_cache, shared));
  }

  Partition Run() {
    for (size_t g = 0; g < graph_.groups.size(); ++g) {
      const auto id = static_cast<int32_t>(g);
      if (JoinsWave(id)) {
        AddToWave(id);
      } else {
        if (MustFollowWave(id) || IsBlockwise(group(id))) FlushWave();
        if (IsBlockwise(group(id))) {
          AddToWave(id);
        } else {
          PackWeights(id);
          AddWholeTask(id);
          turns_.push_back({id, turn_++, false});
          ReleaseWeights(id);
        }
      }
    }
    FlushWave();
    if (options_.save_memory) {
      result_.places = BufferPlaces(graph_, turns_, layout_.steps(), result_.time_block);
      result_.places.Apply(result_.tasks);
    }
    return std::move(result_);
  }

 private:
  const Group& group(int32_t id) const { return graph_.groups[static_cast<size_t>(id)]; }

  static bool IsBlockwise(const Group& g) {
    const WorkKind kind = KindOfWork(g);
    return kind == WorkKind::kLoop || kind == WorkKind::kSteps ||
           (kind == WorkKind::kReduction && g.domain == Domain::kStep);
  }

  // Calls visit(operand) for what the group reads by rows, and visit_whole(view) for the rest.
  template <typename Visit, typename VisitWhole>
  void ForEachRead(const Group& g, Visit visit, VisitWhole visit_whole) const {
    for (const Stage& stage : g.stages) {
      for (const Operand& operand : stage.inputs) {
        visit(operand);
        if (operand.init.buffer >= 0) visit_whole(operand.init);
      }
      if (stage.bias.buffer >= 0) visit_whole(stage.bias);
      if (stage.weight >= 0) visit_whole(graph_.weights[static_cast<size_t>(stage.weight)].matrix);
    }
  }

  // Whether the group has to stand behind the whole wave: it reads what the wave writes, or writes
  // where the wave reads or writes.
  bool MustFollowWave(int32_t id) const {
    const Group& g = group(id);
    bool follows = WritesAny(g, written_) || WritesAny(g, read_);
    ForEachRead(
        g, [&](const Operand& operand) { follows |= written_.contains(operand.view.buffer); },
        [&](const View& view) { follows |= written_.contains(view.buffer); });
    return follows;
  }

  static bool WritesAny(const Group& g, const std::set<int32_t>& buffers) {
    for (const Stage& stage : g.stages) {
      for (const View& view : stage.outputs) {
        if (buffers.contains(view.buffer)) return true;
      }
    }
    return false;
  }

  // With one block there is nothing to take turns in: groups follow each other, so that a weight
  // is done with before the next group's are packed.
  bool IsOneBlock() const { return layout_.steps() <= result_.time_block; }

  // To save memory, what a loop uses up takes turns with that loop: not with a wave before it that
  // the loop cannot join.
  bool WaitsForOtherWave(const Group& g, int32_t id) const {
    if (!options_.save_memory || g.is_loop() || !direction_ || KindOfWork(g) != WorkKind::kSteps ||
        (!g.recomputed && ReadsFromWave(g))) {
      return false;
    }
    for (size_t next = static_cast<size_t>(id) + 1; next < graph_.groups.size(); ++next) {
      const Group& loop = graph_.groups[next];
      if (loop.is_loop() && (g.recomputed || ReadsResultOf(loop, g))) {
        return loop.direction != *direction_;
      }
    }
    return false;
  }

  bool ReadsFromWave(const Group& g) const {
    bool reads = false;
    ForEachRead(
        g, [&](const Operand& operand) { reads |= written_.contains(operand.view.buffer); },
        [&](const View& view) { reads |= written_.contains(view.buffer); });
    return reads;
  }

  bool ReadsResultOf(const Group& reader, const Group& g) const {
    bool reads = false;
    ForEachRead(
        reader,
        [&](const Operand& operand) {
          for (const Stage& stage : g.stages) {
            reads |= stage.outputs[0].buffer == operand.view.buffer;
          }
        },
        [](const View&) {});
    return reads;
  }

  // A group may take its turn within the wave if every block of it needs only blocks that the wave
  // has been through by then, and overwrites none that the wave still looks at in a later turn.
  bool JoinsWave(int32_t id) const {
    const Group& g = group(id);
    if (!IsBlockwise(g) || wave_.empty() || IsOneBlock()) return false;
    if (WaitsForOtherWave(g, id)) return false;
    if (WritesAny(g, read_across_blocks_)) return false;
    std::optional<Direction> direction = direction_;
    bool joins = true;
    const auto walk = [&](Direction wanted) {
      joins = joins && direction.value_or(wanted) == wanted;
      direction = wanted;
    };
    if (g.is_loop()) walk(g.direction);
    ForEachRead(
        g,
        [&](const Operand& operand) {
          if (!written_.contains(operand.view.buffer)) return;
          const Buffer& source = graph_.buffers[static_cast<size_t>(operand.view.buffer)];
          joins = joins && source.domain == Domain::kStep;
          if (operand.delay > 0) walk(operand.direction);
        },
        [&](const View& view) { joins = joins && !written_.contains(view.buffer); });
    return joins;
  }

  void AddToWave(int32_t id) {
    PackWeights(id);
    const Group& g = group(id);
    wave_.push_back(id);
    if (g.is_loop()) direction_ = g.direction;
    ForEachRead(
        g,
        [&](const Operand& operand) {
          read_.insert(operand.view.buffer);
          if (operand.delay == 0) return;
          read_across_blocks_.insert(operand.view.buffer);
          if (written_.contains(operand.view.buffer)) direction_ = operand.direction;
        },
        [&](const View& view) {
          read_.insert(view.buffer);
          read_across_blocks_.insert(view.buffer);
        });
    for (const Stage& stage : g.stages) {
      for (const View& view : stage.outputs) written_.insert(view.buffer);
    }
  }

  void FlushWave() {
    const int64_t blocks = std::max<int64_t>(1, CeilDiv(layout_.steps(), result_.time_block));
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t block = direction_ == Direction::kReverse ? blocks - 1 - i : i;
      const int64_t begin = block * result_.time_block;
      const int64_t end = std::min(layout_.steps(), begin + result_.time_block);
      for (const int32_t id : wave_) AddBlockTasks(id, begin, end, i == 0);
    }
    for (const int32_t id : wave_) {
      ReleaseWeights(id);
      turns_.push_back({id, turn_, true});
    }
    ++turn_;
    wave_.clear();
    written_.clear();
    read_.clear();
    read_across_blocks_.clear();
    direction_.reset();
  }

  template <typename Visit>
  static void ForEachWeight(const Group& g, Visit visit) {
    for (const Stage& stage : g.stages) {
      if (stage.weight >= 0) visit(stage.weight);
    }
  }

  void PackWeights(int32_t id) {
    ForEachWeight(group(id), [&](int32_t weight) {
      if (result_.weights.slot_of(weight) >= 0) return;
      result_.weights.Take(weight);
      const View& matrix = graph_.weights[static_cast<size_t>(weight)].matrix;
      const int64_t parts = PackingParts();
      for (int64_t part = 0; part < parts; ++part) {
        Task task;
        task.name = "pack " + graph_.buffers[static_cast<size_t>(matrix.buffer)].name;
        task.group = -1 - weight;
        task.row_begin = matrix.width * part / parts;
        task.row_end = matrix.width * (part + 1) / parts;
        task.cost = static_cast<double>(matrix.width) / static_cast<double>(parts) * kPackingCost;
        task.reads = {WholeAccess(matrix)};
        task.writes = {PackedAccess(weight)};
        task.writes[0].column_begin = part;
        task.writes[0].column_end = part + 1;
        result_.tasks.push_back(std::move(task));
        result_.work.push_back({.weight = weight, .part = {part, parts}});
      }
    });
  }

  // A part for each stream, unless loops without sequences have no task that would stand between
  // a weight's parts and those of the next one in its place.
  int64_t PackingParts() const { return layout_.batch() == 0 ? 1 : options_.streams; }

  // Behind the group's tasks.
  void ReleaseWeights(int32_t id) {
    ForEachWeight(group(id), [&](int32_t weight) {
      if (--users_[static_cast<size_t>(weight)] == 0) result_.weights.Release(weight);
    });
  }

  void AddBlockTasks(int32_t id, int64_t begin, int64_t end, bool first) {
    const Group& g = group(id);
    // Rows of several steps do not lie together, those of one step do.
    const bool rows = KindOfWork(g) == WorkKind::kSteps && end - begin == 1;
    switch (rows ? WorkKind::kLoop : KindOfWork(g)) {
      case WorkKind::kLoop:
        for (int64_t row = 0; row < layout_.batch(); row += result_.row_tile) {
          AddTask(id, begin, end, row, std::min(layout_.batch(), row + result_.row_tile), true);
        }
        return;
      case WorkKind::kReduction:
        return AddReductionTasks(id, begin, end, first);
      default:
        return AddTask(id, begin, end, 0, layout_.batch(), true);
    }
  }

  // Columns of the first operand in as many parts as there are streams.
  void AddReductionTasks(int32_t id, int64_t begin, int64_t end, bool first) {
    constexpr int64_t kAlignment = 16;
    const int64_t columns = group(id).stages[0].inputs[0].view.width;
    const int64_t part =
        std::max<int64_t>(1, CeilDiv(CeilDiv(columns, options_.streams), kAlignment) * kAlignment);
    for (int64_t column = 0; column < columns; column += part) {
      AddTask(id, begin, end, column, std::min(columns, column + part), first);
    }
  }

  void AddWholeTask(int32_t id) {
    const Group& g = group(id);
    const int64_t steps = g.domain == Domain::kStep ? layout_.steps() : 0;
    if (KindOfWork(g) == WorkKind::kReduction) return AddReductionTasks(id, 0, steps, true);
    AddTask(id, 0, steps, 0, g.domain == Domain::kStatic ? 1 : layout_.batch(), true);
  }

  void AddTask(int32_t id, int64_t time_begin, int64_t time_end, int64_t row_begin, int64_t row_end,
               bool first) {
    const Group& g = group(id);
    Task task;
    task.name = g.name;
    task.group = id;
    task.time_begin = time_begin;
    task.time_end = time_end;
    task.row_begin = row_begin;
    task.row_end = row_end;
    task.cost = CostOf(g, task);
    AddAccesses(g, first, &task);
    result_.tasks.push_back(std::move(task));
    result_.work.push_back({.group = id, .first = first});
  }

  double CostOf(const Group& g, const Task& task) const {
    int64_t rows = task.row_end - task.row_begin;
    int64_t calls = 1;
    double share = 1;
    if (g.domain == Domain::kStep) {
      calls = g.is_loop() ? task.time_end - task.time_begin : 1;
      rows = layout_.offset(task.time_end) - layout_.offset(task.time_begin);
      const bool columns = KindOfWork(g) == WorkKind::kReduction;
      const int64_t all = columns ? g.stages[0].inputs[0].view.width : layout_.batch();
      share = all == 0
                  ? 0
                  : static_cast<double>(task.row_end - task.row_begin) / static_cast<double>(all);
    }
    double cost = 0;
    for (const Stage& stage : g.stages) cost += StageCost(graph_, stage, rows, calls) * share;
    return cost;
  }

  Access WholeAccess(const View& view) const {
    return {view.buffer,
            0,
            std::max<int64_t>(1, layout_.steps()),
            0,
            std::max<int64_t>(1, layout_.batch()),
            view.column,
            view.column + view.width};
  }

  // Places of packed weights stand behind the buffers in the numbering.
  Access PackedAccess(int32_t weight) const {
    const int32_t slot = result_.weights.slot_of(weight);
    return {static_cast<int32_t>(graph_.buffers.size()) + slot, 0, 1, 0, 1, 0, PackingParts()};
  }

  // The part of a view that a task on this tile touches, `delay` steps before or behind.
  Access TileAccess(const View& view, const Task& task, WorkKind kind, int64_t shift) const {
    const Buffer& source = graph_.buffers[static_cast<size_t>(view.buffer)];
    Access access = WholeAccess(view);
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

  void AddAccesses(const Group& g, bool first, Task* task) const {
    const WorkKind kind = KindOfWork(g);
    for (const Stage& stage : g.stages) {
      for (const Operand& operand : stage.inputs) {
        const int64_t shift =
            operand.direction == Direction::kForward ? -operand.delay : operand.delay;
        AddRead(TileAccess(operand.view, *task, kind, shift), task);
        if (operand.init.buffer >= 0) AddRead(WholeHistory(operand.init), task);
      }
      if (stage.bias.buffer >= 0) AddRead(TileAccess(stage.bias, *task, kind, 0), task);
      if (stage.weight >= 0) task->reads.push_back(PackedAccess(stage.weight));
      for (const View& view : stage.outputs) {
        if (graph_.buffers[static_cast<size_t>(view.buffer)].local) continue;
        Access access = kind == WorkKind::kReduction ? ReductionAccess(view, stage, *task)
                                                     : TileAccess(view, *task, kind, 0);
        if (stage.accumulate || !first) task->reads.push_back(access);
        task->writes.push_back(access);
      }
    }
  }

  void AddRead(const Access& access, Task* task) const {
    if (!graph_.buffers[static_cast<size_t>(access.buffer)].local) task->reads.push_back(access);
  }

  Access WholeHistory(View init) const {
    init.column = 0;
    init.width = graph_.buffers[static_cast<size_t>(init.buffer)].width;
    return WholeAccess(init);
  }

  // A part of the first operand's columns gives a part of the result, row by row.
  Access ReductionAccess(const View& view, const Stage& stage, const Task& task) const {
    const int64_t columns = std::max<int64_t>(1, stage.inputs[0].view.width);
    const int64_t each = view.width / columns;
    Access access = WholeAccess(view);
    access.time_end = 1;
    access.row_end = 1;
    access.column_begin = task.row_begin * each;
    access.column_end = task.row_end * each;
    return access;
  }

  const LoweredGraph& graph_;
  const RowLayout& layout_;
  const PartitionOptions& options_;
  Partition result_;
  std::vector<int32_t> users_;  // stages to come that multiply by each weight
  std::vector<int32_t> wave_;
  std::vector<GroupTurn> turns_;  // by waves, and by what stands between them
  int32_t turn_ = 0;
  // Buffers that the wave writes, that it reads, and of those the ones that a block reads outside
  // its own steps.
  std::set<int32_t> written_, read_, read_across_blocks_;
  std::optional<Direction> direction_;
};

}  // namespace

WorkKind KindOfWork(const Group& group) {
  if (group.is_loop()) return WorkKind::kLoop;
  const Stage& stage = group.stages.front();
  if (stage.kind == Stage::Kind::kNode && !Traits(stage.op).per_step) {
    const bool sum = stage.op == Op::kOuter || stage.op == Op::kSumRows;
    return sum ? WorkKind::kReduction : WorkKind::kWhole;
  }
  switch (group.domain) {
    case Domain::kStep:
      return WorkKind::kSteps;
    case Domain::kBatch:
      return WorkKind::kRows;
    case Domain::kStatic:
      break;
  }
  return WorkKind::kStatic;
}

Partition PartitionWork(const LoweredGraph& graph, const RowLayout& layout,
                        const PartitionOptions& options) {
  return Partitioner(graph, layout, options).Run();
}

}  // namespace turbolstm
