#include "plan/partition.h"

#include <algorithm>

#include "base/error.h"
#include "plan/cost.h"
#include "plan/task_accesses.h"
#include "plan/wave.h"

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

// With several streams there are several blocks, so that products can run beside a loop.
int64_t BlockInCache(const LoweredGraph& graph, const RowLayout& layout, int streams) {
  constexpr int64_t kLeastBlocks = 8;
  const int64_t in_cache = RowsInCache(graph) / std::max<int64_t>(1, layout.batch());
  const int64_t shared = streams > 1 ? CeilDiv(layout.steps(), kLeastBlocks) : layout.steps();
  return std::max(
      {int64_t{1}, std::min(in_cache, shared), CeilDiv(layout.steps(), kMostChosenBlocks)});
}

// The waves of groups that take turns block by block.
class Partitioner {
 public:
  Partitioner(const LoweredGraph& graph, const RowLayout& layout, const PartitionOptions& options)
      : graph_(graph),
        layout_(layout),
        options_(options),
        accesses_(graph, layout),
        users_(graph.weights.size(), 0),
        wave_(graph, options.save_memory),
        behind_(graph, options.save_memory) {
    result_.weights = WeightSlots(graph);
    result_.options = options;
    for (const Group& g : graph.groups) {
      ForEachWeight(g, [&](int32_t weight) { ++users_[static_cast<size_t>(weight)]; });
    }
  }

  Partition Run() {
    for (size_t g = 0; g < graph_.groups.size(); ++g) Add(static_cast<int32_t>(g));
    FlushWave();
    NextStep();
    for (size_t i = 0; i < graph_.updates.size(); ++i) AddUpdates(static_cast<int32_t>(i));
    if (options_.save_memory) {
      result_.places = BufferPlaces(graph_, turns_, layout_.steps(), options_.time_block);
      result_.places.Apply(result_.tasks);
    }
    return std::move(result_);
  }

 private:
  const Group& group(int32_t id) const { return graph_.groups[static_cast<size_t>(id)]; }

  void Add(int32_t id) {
    const bool follows = wave_.ComesBefore(id) || behind_.ComesBefore(id);
    if (JoinsWave(id)) return AddToWave(id);
    if (IsBlockwise(group(id))) {
      FlushWave();
      return AddToWave(id);
    }
    // Whoever needs all of the wave, such as a final state, need not keep others from joining it.
    if (follows && TakesTurns() && !options_.save_memory) return behind_.Take(id);
    if (follows || options_.one_by_one) FlushWave();
    AddWhole(id);
  }

  void AddWhole(int32_t id) {
    PackWeights(id);
    NextStep();
    working_set_ = 0;
    AddWholeTask(id);
    turns_.push_back({id, turn_++, false});
    ReleaseWeights(id);
  }

  // With one block there is nothing to take turns in: groups follow each other, so that a weight
  // is done with before the next group's are packed.
  bool TakesTurns() const { return layout_.steps() > options_.time_block && !options_.one_by_one; }

  bool JoinsWave(int32_t id) const {
    return !wave_.empty() && TakesTurns() && wave_.CanTake(id) && !behind_.ComesBefore(id);
  }

  void AddToWave(int32_t id) {
    PackWeights(id);
    wave_.Take(id);
  }

  // Tiles of loops stay with a core, so what it goes through is as narrow.
  void FindWorkingSet() {
    const int64_t steps = std::min(options_.time_block, layout_.steps());
    const double rows = static_cast<double>(steps * std::min(options_.row_tile, layout_.batch()));
    working_set_ = rows * RowBytes(graph_, wave_.groups()) + BytesOfWeights(graph_, wave_.groups());
  }

  // The i-th turn of a sum in a wave of so many: it catches up with the turns that it let go by.
  void AddSum(int32_t id, int64_t i, int64_t turns) {
    const int64_t block = options_.time_block;
    const int64_t gathers = wave_.IsOverwritten(id) ? 1 : options_.sum_block / block;
    const int64_t gathered = i % gathers + 1;
    if (gathered < gathers && i + 1 < turns) return;
    const int64_t first = wave_.IsReverse() ? turns - 1 - i : i + 1 - gathered;
    const int64_t begin = first * block;
    const int64_t end = std::min(layout_.steps(), begin + gathered * block);
    // It finds less of them in the cache.
    const double of_wave = working_set_;
    const auto rows = static_cast<double>((end - begin) * layout_.batch());
    working_set_ = std::max(of_wave, rows * RowBytes(graph_, {id}));
    AddReductionTasks(id, begin, end, i < gathers);
    working_set_ = of_wave;
  }

  void FlushWave() {
    NextStep();
    FindWorkingSet();
    const int64_t blocks = std::max<int64_t>(1, CeilDiv(layout_.steps(), options_.time_block));
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t block = wave_.IsReverse() ? blocks - 1 - i : i;
      const int64_t begin = block * options_.time_block;
      const int64_t end = std::min(layout_.steps(), begin + options_.time_block);
      for (const int32_t id : wave_.groups()) {
        if (KindOfWork(group(id)) == WorkKind::kReduction) {
          AddSum(id, i, blocks);
        } else {
          AddBlockTasks(id, begin, end);
        }
      }
    }
    for (const int32_t id : wave_.groups()) {
      ReleaseWeights(id);
      turns_.push_back({id, turn_, true});
    }
    ++turn_;
    wave_.Clear();
    const std::vector<int32_t> behind = behind_.groups();
    behind_.Clear();
    for (const int32_t id : behind) AddWhole(id);
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
      NextStep();
      result_.weights.Take(weight);
      const View& matrix = graph_.weights[static_cast<size_t>(weight)].matrix;
      const int64_t parts = PackingParts();
      for (int64_t part = 0; part < parts; ++part) {
        Task task;
        task.name = "pack " + graph_.buffers[static_cast<size_t>(matrix.buffer)].name;
        task.group = -1 - weight;
        task.row_begin = matrix.width * part / parts;
        task.row_end = matrix.width * (part + 1) / parts;
        task.cost =
            static_cast<double>(matrix.width) / static_cast<double>(parts) / CostModel().packing;
        task.reads = {WholeAccess(layout_, matrix)};
        task.writes = {PackedAccess(weight)};
        task.writes[0].column_begin = part;
        task.writes[0].column_end = part + 1;
        Add(std::move(task), {.weight = weight, .part = {part, parts}});
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

  void AddBlockTasks(int32_t id, int64_t begin, int64_t end) {
    // Rows of several steps do not lie together, those of one step do.
    if (!group(id).is_loop() && end - begin != 1) return AddStepTasks(id, begin, end);
    for (int64_t row = 0; row < layout_.batch(); row += options_.row_tile) {
      AddTask(id, begin, end, row, std::min(layout_.batch(), row + options_.row_tile), true);
    }
  }

  void AddStepTasks(int32_t id, int64_t begin, int64_t end) {
    const int64_t part = std::max<int64_t>(1, CeilDiv(end - begin, options_.step_parts));
    int64_t time = begin;
    do {
      AddTask(id, time, std::min(end, time + part), 0, layout_.batch(), true);
      time += part;
    } while (time < end);
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
    task.cost = TaskCost(graph_, layout_, task, working_set_);
    accesses_.AddTo(
        g, first, [&](int32_t weight) { return PackedAccess(weight); }, &task);
    Add(std::move(task), {.group = id, .first = first});
  }

  // Elements are independent, and a part is worth a task.
  void AddUpdates(int32_t id) {
    constexpr int64_t kPart = int64_t{1} << 15;
    const ParameterUpdate& update = graph_.updates[static_cast<size_t>(id)];
    for (int64_t first = 0; first < update.parameter.width; first += kPart) {
      Task task;
      task.name = "update " + graph_.buffers[static_cast<size_t>(update.parameter.buffer)].name;
      task.group = -1 - static_cast<int32_t>(graph_.weights.size()) - id;
      task.row_begin = first;
      task.row_end = std::min(update.parameter.width, first + kPart);
      task.cost = UpdateCost(task.row_end - task.row_begin);
      task.reads = {Columns(update.gradient, task), WholeAccess(layout_, update.guard)};
      task.writes = {Columns(update.parameter, task)};
      Add(std::move(task), {.update = id});
    }
  }

  Access Columns(const View& view, const Task& task) const {
    Access access = WholeAccess(layout_, view);
    access.column_begin = view.column + task.row_begin;
    access.column_end = view.column + task.row_end;
    return access;
  }

  void Add(Task task, const Work& work) {
    if (options_.one_by_one) AddBarrier(&task);
    result_.tasks.push_back(std::move(task));
    result_.work.push_back(work);
  }

  // What is added from now on begins when all before it is done, if groups run one by one.
  void NextStep() {
    if (step_begin_ == std::ssize(result_.tasks)) return;
    previous_step_ = std::ssize(result_.tasks) - step_begin_;
    step_begin_ = std::ssize(result_.tasks);
    ++step_;
  }

  void AddBarrier(Task* task) const {
    const int32_t barrier = BarrierBuffer(graph_);
    const int64_t place = std::ssize(result_.tasks) - step_begin_;
    task->writes.push_back({barrier, step_, step_ + 1, 0, 1, place, place + 1});
    if (step_ > 0) task->reads.push_back({barrier, step_ - 1, step_, 0, 1, 0, previous_step_});
  }

  // Places of packed weights stand behind the buffers in the numbering.
  Access PackedAccess(int32_t weight) const {
    const int32_t slot = result_.weights.slot_of(weight);
    return {static_cast<int32_t>(graph_.buffers.size()) + slot, 0, 1, 0, 1, 0, PackingParts()};
  }

  const LoweredGraph& graph_;
  const RowLayout& layout_;
  const PartitionOptions& options_;
  const TaskAccesses accesses_;
  Partition result_;
  std::vector<int32_t> users_;  // stages to come that multiply by each weight
  Wave wave_;
  Wave behind_;                   // groups that follow the wave as a whole
  std::vector<GroupTurn> turns_;  // by waves, and by what stands between them
  int32_t turn_ = 0;
  double working_set_ = 0;                                 // of the wave's blocks, see TaskCost
  int64_t step_ = 0, step_begin_ = 0, previous_step_ = 0;  // see NextStep; in tasks
};

}  // namespace

// Behind the buffers and the places of packed weights, which are at most as many as weights.
int32_t BarrierBuffer(const LoweredGraph& graph) {
  return static_cast<int32_t>(graph.buffers.size() + graph.weights.size());
}

PartitionOptions Completed(const LoweredGraph& graph, const RowLayout& layout,
                           PartitionOptions options) {
  TL_CHECK(options.streams >= 1 && options.time_block >= 0 && options.row_tile >= 0 &&
               options.sum_block >= 0 && options.step_parts >= 1,
           "[plan] got {} streams, time block {}, row tile {}, sum block {} and {} parts, wants at "
           "least 1, 0, 0, 0 and 1",
           options.streams, options.time_block, options.row_tile, options.sum_block,
           options.step_parts);
  if (options.time_block == 0) options.time_block = BlockInCache(graph, layout, options.streams);
  if (options.row_tile == 0) {
    options.row_tile = std::max<int64_t>(1, CeilDiv(layout.batch(), options.streams));
  }
  options.row_tile = std::min(options.row_tile, std::max<int64_t>(1, layout.batch()));
  options.time_block = std::min(options.time_block, std::max<int64_t>(1, layout.steps()));
  // Rings of blocks are too short for sums that catch up with several.
  const int64_t sum_block = options.save_memory ? 0 : options.sum_block;
  options.sum_block =
      std::max<int64_t>(1, CeilDiv(sum_block, options.time_block)) * options.time_block;
  const int64_t blocks = CeilDiv(layout.steps(), options.time_block);
  TL_CHECK(blocks <= kMostBlocks,
           "[plan] blocks of {} of {} steps are {}, which is too many to plan; wants at most {}, "
           "blocks of {} or more",
           options.time_block, layout.steps(), blocks, kMostBlocks,
           CeilDiv(layout.steps(), kMostBlocks));
  return options;
}

Partition PartitionWork(const LoweredGraph& graph, const RowLayout& layout,
                        const PartitionOptions& options) {
  const PartitionOptions completed = Completed(graph, layout, options);
  return Partitioner(graph, layout, completed).Run();
}

}  // namespace turbolstm
