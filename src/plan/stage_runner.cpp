#include "plan/stage_runner.h"

#include <algorithm>

#include "base/error.h"
#include "plan/row_operators.h"
#include "plan/static_operators.h"

namespace turbolstm {
namespace {

// The widest row that a delayed operand reads, and so may have to find zeros instead of.
int64_t WidestDelayed(const LoweredGraph& graph) {
  int64_t width = 0;
  for (const Group& group : graph.groups) {
    for (const Stage& stage : group.stages) {
      for (const Operand& operand : stage.inputs) {
        if (operand.delay > 0) width = std::max(width, operand.view.width);
      }
    }
  }
  return width;
}

}  // namespace

int64_t RowCount(const RunState& state, const Stage& stage) {
  return stage.attributes.domain == Domain::kBatch ? state.layout->batch() : state.layout->rows();
}

StageRunner::StageRunner(const RunState* state, int stream)
    : state_(*state),
      stream_(stream),
      zeros_(static_cast<size_t>(WidestDelayed(*state->graph)) * sizeof(float)) {}

std::byte* StageRunner::Address(const View& view, int64_t row) const {
  return state_.memory->base(view.buffer, stream_) +
         ((row + state_.memory->RowShift(view.buffer, block_shift_)) * buffer(view.buffer).width +
          view.column) *
             ElementSize(view);
}

std::byte* StageRunner::OutputRow(const View& view, const StepRows& rows, int64_t row) const {
  const Buffer& target = buffer(view.buffer);
  if (target.local) return Address(view, row - tile_begin_);
  return Address(view, target.domain == Domain::kStep ? StepRow(target, rows.time, row) : row);
}

RowRun StageRunner::RunAt(const View& view, int64_t time, int64_t row, int64_t end) const {
  const Buffer& source = buffer(view.buffer);
  const int64_t stride = source.width * ElementSize(view);
  if (source.local) return {Address(view, row - tile_begin_), stride, end};
  switch (source.domain) {
    case Domain::kStatic:
      return {Address(view, 0), 0, end};
    case Domain::kBatch:
      return {Address(view, row), stride, end};
    case Domain::kStep:
      break;
  }
  return {Address(view, StepRow(source, time, row)), stride, end};
}

RowRun StageRunner::Resolve(const Operand& operand, int64_t time, int64_t row, int64_t end) const {
  if (operand.delay == 0) return RunAt(operand.view, time, row, end);
  return state_.layout->has_resets() ? ResolveWithResets(operand, time, row, end)
                                     : ResolveDelayed(operand, time, row, end);
}

RowRun StageRunner::ResolveDelayed(const Operand& operand, int64_t time, int64_t row,
                                   int64_t end) const {
  const RowLayout& layout = *state_.layout;
  const auto init = [&](int64_t history, int64_t last) {
    return AtLink(operand, {operand.adjoint ? Link::Kind::kNothing : Link::Kind::kInit, history},
                  row, last);
  };
  if (operand.direction == Direction::kForward) {
    const int64_t source = time - operand.delay;
    if (source < 0) return init(time, end);
    return AtLink(operand, {Link::Kind::kStep, source}, row, end);
  }
  // In reverse, sequences that end before the source step are at their beginning still. Longer
  // ones come first, so the others follow in runs of equal length.
  const int64_t source = time + operand.delay;
  const int64_t reached = source < layout.steps() ? layout.count(source) : 0;
  if (row < reached) {
    return AtLink(operand, {Link::Kind::kStep, source}, row, std::min(end, reached));
  }
  if (operand.adjoint) return init(0, end);
  const int64_t history = layout.length(row) - 1 - time;
  return init(history, std::min(end, layout.count(time + history)));
}

Link StageRunner::LinkOf(const Operand& operand, int64_t time, int64_t row) const {
  const Direction walked = operand.adjoint ? Opposite(operand.direction) : operand.direction;
  const Walk walk = state_.layout->WalkOf(row, walked);
  const int64_t position = walk.Position(time);
  return operand.adjoint ? walk.ReadAhead(position, operand.delay)
                         : walk.Read(position, operand.delay);
}

RowRun StageRunner::ResolveWithResets(const Operand& operand, int64_t time, int64_t row,
                                      int64_t end) const {
  const Link link = LinkOf(operand, time, row);
  int64_t last = row + 1;
  while (last < end && LinkOf(operand, time, last) == link) ++last;
  return AtLink(operand, link, row, last);
}

RowRun StageRunner::AtLink(const Operand& operand, const Link& link, int64_t row,
                           int64_t end) const {
  if (link.kind == Link::Kind::kStep) return RunAt(operand.view, link.index, row, end);
  if (link.kind == Link::Kind::kNothing || operand.init.buffer < 0) return {zeros_.data(), 0, end};
  View init = operand.init;
  init.column += link.index * operand.init_stride;
  return RunAt(init, 0, row, end);
}

void StageRunner::AppendPointers(const Operand& operand, const StepRows& rows,
                                 std::vector<const void*>* pointers) const {
  for (int64_t row = rows.row_begin; row < rows.row_end;) {
    const RowRun run = Resolve(operand, rows.time, row, rows.row_end);
    for (int64_t i = 0; row < run.end; ++row, ++i) pointers->push_back(run.data + i * run.stride);
  }
}

ConstRows StageRunner::GatherRows(const Operand& operand, int64_t time_begin, int64_t time_end,
                                  std::vector<const void*>* pointers) const {
  const Buffer& source = buffer(operand.view.buffer);
  const RowLayout& layout = *state_.layout;
  if (operand.delay == 0 && source.domain == Domain::kStep) {
    return {Address(operand.view, layout.offset(time_begin)), source.width, source.dtype};
  }
  pointers->clear();
  for (int64_t t = time_begin; t < time_end; ++t) {
    AppendPointers(operand, {t, 0, layout.count(t)}, pointers);
  }
  return {nullptr, 0, source.dtype, pointers->data()};
}

void StageRunner::RunRows(const Stage& stage, const StepRows& rows) {
  if (rows.row_begin >= rows.row_end) return;
  switch (stage.kind) {
    case Stage::Kind::kMatMul:
      return RunMatMul(stage, rows);
    case Stage::Kind::kPointwise:
      return RunPointwise(stage, rows);
    case Stage::Kind::kNode:
      return RunNodeRows(stage, rows);
  }
}

const float* StageRunner::BiasOf(const Stage& stage) const {
  return stage.bias.buffer < 0 ? nullptr : reinterpret_cast<const float*>(Address(stage.bias, 0));
}

void StageRunner::RunMatMul(const Stage& stage, const StepRows& rows) {
  const Operand& x = stage.inputs[0];
  const RowRun run = Resolve(x, rows.time, rows.row_begin, rows.row_end);
  ConstRows source{run.data, run.stride / ElementSize(x.view), buffer(x.view.buffer).dtype};
  if (run.end < rows.row_end) {
    pointers_.clear();
    AppendPointers(x, rows, &pointers_);
    source.pointers = pointers_.data();
  }
  const View& y = stage.outputs[0];
  MatMul(source, rows.row_end - rows.row_begin, WeightOf(stage), BiasOf(stage), stage.accumulate,
         {OutputRow(y, rows, rows.row_begin), buffer(y.buffer).width, buffer(y.buffer).dtype});
}

void StageRunner::RunPointwise(const Stage& stage, const StepRows& rows) {
  inputs_.resize(stage.inputs.size());
  outputs_.resize(stage.outputs.size());
  for (int64_t row = rows.row_begin; row < rows.row_end;) {
    int64_t end = rows.row_end;
    for (size_t i = 0; i < stage.inputs.size(); ++i) {
      const Operand& operand = stage.inputs[i];
      const RowRun run = Resolve(operand, rows.time, row, end);
      const DType type = buffer(operand.view.buffer).dtype;
      inputs_[i] = {const_cast<std::byte*>(run.data),
                    run.stride / static_cast<int64_t>(SizeOf(type)), type};
      end = run.end;
    }
    for (size_t i = 0; i < stage.outputs.size(); ++i) {
      const View& view = stage.outputs[i];
      outputs_[i] = {OutputRow(view, rows, row), buffer(view.buffer).width,
                     buffer(view.buffer).dtype};
    }
    (*stage.kernel)({end - row, stage.outputs[0].width, inputs_.data(), outputs_.data()});
    row = end;
  }
}

void StageRunner::RunNodeRows(const Stage& stage, const StepRows& rows) {
  for (int64_t row = rows.row_begin; row < rows.row_end; ++row) {
    operands_.clear();
    for (size_t i = 0; i < stage.inputs.size(); ++i) {
      operands_.push_back(OperandRow(stage, i, rows.time, row));
    }
    EvaluateRow(state_, stage, {rows.time, row, state_.layout->sequence(row)}, operands_,
                ResultRow(stage, rows.time, row));
  }
}

bool StageRunner::IsFlat(const Stage& stage) const {
  return std::all_of(stage.inputs.begin(), stage.inputs.end(), [&](const Operand& operand) {
    const Buffer& source = buffer(operand.view.buffer);
    return operand.delay == 0 && source.domain != Domain::kBatch && !source.local;
  });
}

void StageRunner::RunSteps(const Stage& stage, int64_t time_begin, int64_t time_end) {
  const RowLayout& layout = *state_.layout;
  const int64_t row_begin = layout.offset(time_begin);
  const int64_t row_end = layout.offset(time_end);
  if (row_begin >= row_end) return;
  if (stage.kind == Stage::Kind::kMatMul) return RunMatMulOnSteps(stage, time_begin, time_end);
  if (stage.kind == Stage::Kind::kPointwise && IsFlat(stage)) {
    return RunPointwiseFlat(stage, row_begin, row_end);
  }
  for (int64_t t = time_begin; t < time_end; ++t) RunRows(stage, {t, 0, layout.count(t)});
}

// One product for all rows: what is delayed, or the same for several rows, is read by pointers.
void StageRunner::RunMatMulOnSteps(const Stage& stage, int64_t time_begin, int64_t time_end) {
  const int64_t begin = state_.layout->offset(time_begin);
  const int64_t end = state_.layout->offset(time_end);
  const View& y = stage.outputs[0];
  MatMul(GatherRows(stage.inputs[0], time_begin, time_end, &pointers_), end - begin,
         WeightOf(stage), BiasOf(stage), stage.accumulate,
         {Address(y, begin), buffer(y.buffer).width, buffer(y.buffer).dtype});
}

void StageRunner::RunPointwiseFlat(const Stage& stage, int64_t row_begin, int64_t row_end) {
  const auto slot = [&](const View& view) {
    const Buffer& where = buffer(view.buffer);
    const bool shared = where.domain == Domain::kStatic;
    return PointwiseSlot{Address(view, shared ? 0 : row_begin), shared ? 0 : where.width,
                         where.dtype};
  };
  inputs_.clear();
  outputs_.clear();
  for (const Operand& operand : stage.inputs) inputs_.push_back(slot(operand.view));
  for (const View& view : stage.outputs) outputs_.push_back(slot(view));
  (*stage.kernel)({row_end - row_begin, stage.outputs[0].width, inputs_.data(), outputs_.data()});
}

void StageRunner::RunStatic(const Stage& stage) {
  switch (stage.kind) {
    case Stage::Kind::kPointwise:
      return RunPointwiseFlat(stage, 0, 1);
    case Stage::Kind::kMatMul:
      return MultiplyStatic(stage);
    case Stage::Kind::kNode:
      break;
  }
  std::vector<const float*> operands;
  for (const Operand& operand : stage.inputs) {
    operands.push_back(reinterpret_cast<const float*>(Address(operand.view, 0)));
  }
  EvaluateStatic(state_, stage, operands, reinterpret_cast<float*>(Address(stage.outputs[0], 0)));
}

void StageRunner::MultiplyStatic(const Stage& stage) const {
  const View& x = stage.inputs[0].view;
  const View& y = stage.outputs[0];
  MatMul({Address(x, 0), x.width}, 1, WeightOf(stage), nullptr, false, {Address(y, 0), y.width});
}

ConstRows StageRunner::SummedRows(const Stage& stage, size_t i, int64_t time_begin,
                                  int64_t time_end, std::vector<const void*>* pointers) const {
  const View& view = stage.inputs[i].view;
  if (stage.domain == Domain::kStep) {
    return GatherRows(stage.inputs[i], time_begin, time_end, pointers);
  }
  const Buffer& source = buffer(view.buffer);
  const bool shared = source.domain == Domain::kStatic;
  return {Address(view, 0), shared ? 0 : source.width, source.dtype};
}

int64_t StageRunner::SummedRowCount(const Stage& stage, int64_t time_begin,
                                    int64_t time_end) const {
  const RowLayout& layout = *state_.layout;
  switch (stage.domain) {
    case Domain::kStep:
      return layout.offset(time_end) - layout.offset(time_begin);
    case Domain::kBatch:
      return layout.batch();
    case Domain::kStatic:
      break;
  }
  return 1;
}

void StageRunner::RunReduction(const Stage& stage, int64_t time_begin, int64_t time_end,
                               int64_t column_begin, int64_t column_end, bool first) {
  const int64_t rows = SummedRowCount(stage, time_begin, time_end);
  ConstRows a = SummedRows(stage, 0, time_begin, time_end, &pointers_);
  a.offset = column_begin;
  if (stage.op == Op::kSumRows) {
    auto* y = reinterpret_cast<float*>(Address(stage.outputs[0], 0));
    return SumOverRows(a, column_end - column_begin, rows, !first, y + column_begin);
  }
  TL_CHECK(stage.op == Op::kOuter, "[{}] {} does not sum over rows", stage.name,
           Traits(stage.op).name);
  const ConstRows b = SummedRows(stage, 1, time_begin, time_end, &more_pointers_);
  SumOuterProducts(stage, a, b, rows, column_end, first);
}

// Rows [a.offset, column_end) of the result, each in the block of its head.
void StageRunner::SumOuterProducts(const Stage& stage, ConstRows a, ConstRows b, int64_t rows,
                                   int64_t column_end, bool first) const {
  auto* y = reinterpret_cast<float*>(Address(stage.outputs[0], 0));
  const int64_t heads = std::max<int64_t>(1, stage.attributes.size);
  const int64_t m = stage.inputs[0].view.width / heads;
  const int64_t n = stage.inputs[1].view.width / heads;
  const int64_t column_begin = a.offset;
  for (int64_t head = 0; head < heads; ++head) {
    const int64_t begin = std::max(column_begin, head * m);
    const int64_t end = std::min(column_end, (head + 1) * m);
    if (begin >= end) continue;
    a.offset = begin;
    b.offset = head * n;
    MatMulTransposed(a, end - begin, b, n, rows, ProductType(), !first, y + begin * n, n);
  }
}

void StageRunner::PackWeight(int32_t weight, const PackingPart& part, PackedMatrix* packed) const {
  const PackedWeight& source = state_.graph->weights[static_cast<size_t>(weight)];
  const std::vector<int64_t>& shape = source.features;
  const int64_t heads = shape.size() == 3 ? shape[0] : 1;
  const MatrixView matrix{reinterpret_cast<const float*>(Address(source.matrix, 0)),
                          heads * shape.end()[-2], shape.back(), shape.back()};
  Pack(matrix, !source.transposed, ProductType(), packed, heads, part);
}

}  // namespace turbolstm
