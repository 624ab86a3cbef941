#include "execution/memory_plan.h"

#include <algorithm>

#include "base/error.h"
#include "execution/narrow_statics.h"
#include "execution/split_choice.h"
#include "execution/turns.h"
#include "ops/matmul/product_workspace.h"
#include "plan/stream_clocks.h"

namespace turbolstm {
namespace {

constexpr int64_t kAlignment = 256;
// Copies that take less time than the launch of a kernel.
constexpr int64_t kSmallCopyBytes = int64_t{4} << 20;

int64_t Aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

MemoryPlan::MemoryPlan(const LoweredGraph& graph, std::vector<bool> lent)
    : graph_(graph),
      narrow_(OperandType(graph.precision)),
      lent_(std::move(lent)),
      blocks_(graph.buffers.size()),
      narrow_statics_(NarrowStaticsOf(graph)) {
  for (const View& view : narrow_statics_) {
    blocks_.emplace_back();
    const NarrowRows copy = NarrowRowsOf(graph, view);
    blocks_.back().bytes = Aligned(copy.rows * copy.stride * static_cast<int64_t>(SizeOf(narrow_)));
  }
  blocks_.resize(blocks_.size() + graph.groups.size());
  PlaceParameters();
  SetShape(0, 0);
}

bool MemoryPlan::IsParameter(int32_t buffer) const {
  return graph_.buffers[static_cast<size_t>(buffer)].source == BufferSource::kParameter;
}

bool MemoryPlan::Block::IsBefore(const Block& other) const {
  for (size_t s = 0; s < last.size(); ++s) {
    if (last[s] >= other.done[s]) return false;
  }
  return true;
}

void MemoryPlan::Touch(Block* block, int32_t turn) {
  block->used = true;
  block->last[0] = std::max(block->last[0], turn);
  block->done[0] = std::min(block->done[0], turn);
}

void MemoryPlan::Touch(const View& view, int32_t turn) {
  if (view.buffer >= 0) Touch(&blocks_[static_cast<size_t>(view.buffer)], turn);
}

void MemoryPlan::TouchStage(const Stage& stage, int32_t turn) {
  for (const Operand& operand : stage.inputs) {
    Touch(operand.view, turn);
    Touch(operand.init, turn);
  }
  for (const View& output : stage.outputs) Touch(output, turn);
  Touch(stage.bias, turn);
  if (stage.weight >= 0) Touch(graph_.weights[static_cast<size_t>(stage.weight)].matrix, turn);
  for (const View& view : NarrowStaticsOf(graph_, stage)) {
    const auto known = std::find(narrow_statics_.begin(), narrow_statics_.end(), view);
    const auto i = static_cast<size_t>(known - narrow_statics_.begin());
    Touch(&blocks_[graph_.buffers.size() + i], turn);
  }
}

void MemoryPlan::BeginLives(size_t streams) {
  for (Block& block : blocks_) {
    block.used = false;
    block.last.assign(streams, -1);
    block.done.assign(streams, kEnd);
  }
}

void MemoryPlan::FindTurns() {
  BeginLives(1);
  const std::vector<int64_t> turns = Turns(graph_);
  const std::vector<size_t> ends = EndsOfSplitRuns(graph_);
  size_t first = 0, last = 0;  // of groups that take turns
  for (size_t g = 0; g < turns.size(); ++g) {
    if (g > last || ends[g] > g) first = last = g;
    if (ends[g] > g) last = ends[g] - 1;
    for (const Stage& stage : graph_.groups[g].stages) {
      TouchStage(stage, static_cast<int32_t>(turns[first]));
      TouchStage(stage, static_cast<int32_t>(turns[last]));
    }
  }
  if (!lends()) {
    KeepWhatIsBound();
    for (size_t i = 0; i < narrow_statics_.size(); ++i) {
      if (IsNarrowAtOnce(i)) Touch(&blocks_[graph_.buffers.size() + i], 0);
    }
    return;
  }
  const bool halves = graph_.first_late && *graph_.first_late < turns.size();
  FindRegions(halves ? static_cast<int32_t>(turns[*graph_.first_late]) : kEnd);
}

// Outputs are read at the end of their half.
void MemoryPlan::FindRegions(int32_t first_late_turn) {
  for (const NamedView& output : graph_.outputs) {
    Block& block = blocks_[static_cast<size_t>(output.view.buffer)];
    const bool early = block.done[0] < first_late_turn;
    block.last[0] = std::max(block.last[0], early ? first_late_turn - 1 : kEnd);
  }
  for (Block& block : blocks_) {
    block.region = block.last[0] < first_late_turn    ? Region::kEarly
                   : block.done[0] >= first_late_turn ? Region::kLate
                                                      : Region::kShared;
  }
}

bool MemoryPlan::IsNarrowAtOnce(size_t i) const {
  return !lends() && IsParameter(narrow_statics_[i].buffer) &&
         blocks_[graph_.buffers.size() + i].bytes <= kSmallCopyBytes;
}

void MemoryPlan::FindTasks(const DeviceSchedule& schedule) {
  const std::vector<Task>& tasks = schedule.work.tasks;
  const size_t streams = schedule.streams.streams.size();
  const StreamClocks clocks(tasks, schedule.streams.streams, schedule.streams.waits);
  BeginLives(streams);
  for (int32_t task = 0; task < std::ssize(tasks); ++task) {
    const auto touch = [&](const Access& access) {
      Block& block = blocks_[static_cast<size_t>(access.buffer)];
      int32_t& last = block.last[static_cast<size_t>(clocks.stream(task))];
      block.used = true;
      last = std::max(last, clocks.position(task));
      for (size_t s = 0; s < streams; ++s) {
        block.done[s] = std::min(block.done[s], clocks.DoneBefore(task, static_cast<int32_t>(s)));
      }
    };
    for (const Access& read : tasks[static_cast<size_t>(task)].reads) touch(read);
    for (const Access& write : tasks[static_cast<size_t>(task)].writes) touch(write);
  }
  KeepWhatIsBound();
}

void MemoryPlan::KeepWhatIsBound() {
  const auto keep = [](Block* block) {
    block->used = true;
    std::fill(block->last.begin(), block->last.end(), kEnd);
  };
  for (const NamedView& output : graph_.outputs) {
    if (output.view.buffer >= 0) keep(&blocks_[static_cast<size_t>(output.view.buffer)]);
  }
  for (const NamedView& input : graph_.inputs) {
    Block& block = blocks_[static_cast<size_t>(input.view.buffer)];
    keep(&block);
    std::fill(block.done.begin(), block.done.end(), 0);
  }
}

int64_t MemoryPlan::RowsOf(Domain domain) const {
  switch (domain) {
    case Domain::kStep:
      return steps_ * batch_;
    case Domain::kBatch:
      return batch_;
    case Domain::kStatic:
      break;
  }
  return 1;
}

int64_t MemoryPlan::BytesOf(const Buffer& what) const {
  int64_t rows = RowsOf(what.domain);
  if (what.domain == Domain::kStep && (what.local || what.ring > 0)) {
    rows = batch_ * (what.local ? 1 : what.ring);
  }
  return Aligned(rows * what.width * static_cast<int64_t>(SizeOf(what.dtype)));
}

void MemoryPlan::PlaceParameters() {
  for (size_t i = 0; i < graph_.buffers.size(); ++i) {
    if (!IsParameter(static_cast<int32_t>(i))) continue;
    blocks_[i].offset = parameter_bytes_;
    parameter_bytes_ += BytesOf(buffer(i));
  }
}

void MemoryPlan::SetShape(int64_t steps, int64_t batch) {
  FindTurns();
  Place(steps, batch, {});
}

void MemoryPlan::SetShape(int64_t steps, int64_t batch, const DeviceSchedule& schedule,
                          std::span<const int64_t> state_bytes) {
  FindTasks(schedule);
  Place(steps, batch, state_bytes);
}

void MemoryPlan::Place(int64_t steps, int64_t batch, std::span<const int64_t> state_bytes) {
  steps_ = steps;
  batch_ = batch;
  for (size_t i = 0; i < graph_.buffers.size(); ++i) blocks_[i].bytes = BytesOf(buffer(i));
  for (size_t g = 0; g < graph_.groups.size(); ++g) {
    blocks_[graph_.buffers.size() + narrow_statics_.size() + g].bytes =
        g < state_bytes.size() ? Aligned(state_bytes[g]) : 0;
  }
  for (const Region region : {Region::kShared, Region::kEarly, Region::kLate}) PlaceRegion(region);
}

std::string MemoryPlan::Describe() const {
  size_t largest = 0;
  for (size_t i = 1; i < graph_.buffers.size(); ++i) {
    if (!IsParameter(static_cast<int32_t>(i)) && blocks_[i].bytes > blocks_[largest].bytes) {
      largest = i;
    }
  }
  return fmt::format("a network's values of {} steps of {} sequences (the largest, '{}', has {})",
                     steps_, batch_, buffer(largest).name, blocks_[largest].bytes);
}

int64_t MemoryPlan::ProductBytes(const Group& group, const Stage& stage) const {
  const bool one_step = group.is_loop() && stage.op != Op::kOuter;
  const ProductSize size = SizeOfProduct(graph_, stage, one_step ? batch_ : RowsOf(stage.domain));
  const DType result = buffer(static_cast<size_t>(stage.outputs[0].buffer)).dtype;
  return size.batches *
         ((size.m * size.k + size.k * size.n) * static_cast<int64_t>(SizeOf(narrow_)) +
          size.m * size.n * static_cast<int64_t>(SizeOf(result)));
}

int64_t MemoryPlan::ProductWorkspaceBytes() const {
  int64_t most = 0;
  for (const Group& group : graph_.groups) {
    for (const Stage& stage : group.stages) {
      if (!IsProduct(stage)) continue;
      most = std::max(most, MostWorkspaceBytes(ProductBytes(group, stage), narrow_));
    }
  }
  return most;
}

// Largest first, each at the lowest place that is free for as long as it is needed.
void MemoryPlan::PlaceRegion(Region region) {
  std::vector<Block*> order;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const bool is_buffer = i < graph_.buffers.size();
    const auto number = static_cast<int32_t>(i);
    if (is_buffer && (IsParameter(number) || IsLent(number))) continue;
    if (blocks_[i].used && blocks_[i].region == region) order.push_back(&blocks_[i]);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Block* a, const Block* b) { return a->bytes > b->bytes; });
  std::vector<const Block*> placed;  // by offset
  int64_t& bytes = region_bytes_[static_cast<size_t>(region)];
  bytes = 0;
  for (Block* const block : order) {
    int64_t offset = 0;
    for (const Block* const other : placed) {
      if (block->IsBefore(*other) || other->IsBefore(*block)) continue;
      if (offset + block->bytes <= other->offset) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    block->offset = offset;
    bytes = std::max(bytes, offset + block->bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), block,
                         [](const Block* a, const Block* b) { return a->offset < b->offset; }),
        block);
  }
}

}  // namespace turbolstm
