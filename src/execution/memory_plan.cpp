#include "execution/memory_plan.h"

#include <algorithm>

#include "base/error.h"
#include "execution/split_choice.h"
#include "execution/turns.h"
#include "ops/matmul/product_workspace.h"

namespace turbolstm {
namespace {

constexpr int64_t kAlignment = 256;

int64_t Aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

MemoryPlan::MemoryPlan(const LoweredGraph& graph)
    : graph_(graph), narrow_(OperandType(graph.precision)), blocks_(graph.buffers.size()) {
  FindLifetimes();
  PlaceParameters();
  SetShape(0, 0);
}

bool MemoryPlan::IsParameter(int32_t buffer) const {
  return graph_.buffers[static_cast<size_t>(buffer)].source == BufferSource::kParameter;
}

void MemoryPlan::Touch(Block* block, int64_t turn) {
  if (block->first < 0) block->first = turn;
  block->last = turn;
}

void MemoryPlan::Touch(const View& view, int64_t turn) {
  if (view.buffer >= 0) Touch(&blocks_[static_cast<size_t>(view.buffer)], turn);
}

void MemoryPlan::TouchNarrow(const View& view, int64_t turn) {
  const auto known = std::find(narrow_statics_.begin(), narrow_statics_.end(), view);
  const auto i = static_cast<size_t>(known - narrow_statics_.begin());
  if (known == narrow_statics_.end()) {
    narrow_statics_.push_back(view);
    blocks_.emplace_back();
    blocks_.back().bytes = Aligned(view.width * static_cast<int64_t>(SizeOf(narrow_)));
  }
  Touch(&blocks_[graph_.buffers.size() + i], turn);
}

void MemoryPlan::TouchStage(const Stage& stage, int64_t turn) {
  for (const Operand& operand : stage.inputs) {
    Touch(operand.view, turn);
    Touch(operand.init, turn);
  }
  for (const View& output : stage.outputs) Touch(output, turn);
  Touch(stage.bias, turn);
  if (stage.weight < 0) return;
  const View& matrix = graph_.weights[static_cast<size_t>(stage.weight)].matrix;
  Touch(matrix, turn);
  if (narrow_ == DType::kFloat32 || stage.domain == Domain::kStatic) return;
  TouchNarrow(matrix, turn);
  if (stage.bias.buffer < 0) return;
  const View& output = stage.outputs[0];
  if (buffer(static_cast<size_t>(output.buffer)).dtype == narrow_) TouchNarrow(stage.bias, turn);
}

void MemoryPlan::FindLifetimes() {
  const std::vector<int64_t> turns = Turns(graph_);
  const int64_t end = turns.empty() ? 0 : turns.back() + 1;
  for (size_t g = 0; g < turns.size(); ++g) {
    for (const Stage& stage : graph_.groups[g].stages) TouchStage(stage, turns[g]);
  }
  for (const NamedView& output : graph_.outputs) Touch(output.view, end);
  for (const NamedView& input : graph_.inputs) {
    Block& block = blocks_[static_cast<size_t>(input.view.buffer)];
    block.first = 0;
    block.last = end;
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
  steps_ = steps;
  batch_ = batch;
  for (size_t i = 0; i < graph_.buffers.size(); ++i) blocks_[i].bytes = BytesOf(buffer(i));
  PlaceShared();
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
void MemoryPlan::PlaceShared() {
  std::vector<Block*> order;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const bool parameter = i < graph_.buffers.size() && IsParameter(static_cast<int32_t>(i));
    if (!parameter && blocks_[i].first >= 0) order.push_back(&blocks_[i]);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Block* a, const Block* b) { return a->bytes > b->bytes; });
  std::vector<const Block*> placed;  // by offset
  shared_bytes_ = 0;
  for (Block* const block : order) {
    int64_t offset = 0;
    for (const Block* const other : placed) {
      if (block->first > other->last || other->first > block->last) continue;
      if (offset + block->bytes <= other->offset) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    block->offset = offset;
    shared_bytes_ = std::max(shared_bytes_, offset + block->bytes);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), block,
                         [](const Block* a, const Block* b) { return a->offset < b->offset; }),
        block);
  }
}

}  // namespace turbolstm
