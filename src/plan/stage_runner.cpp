#include "plan/stage_runner.h"

#include <algorithm>

namespace turbolstm {

std::byte* StageRunner::Row(const View& view, int64_t row) const {
  return state_.memory->base(view.buffer, stream_) +
         (row * buffer(view.buffer).width + view.column) * ElementSize(view);
}

std::byte* StageRunner::OutputRow(const View& view, const StepRows& rows, int64_t row) const {
  const Buffer& target = buffer(view.buffer);
  if (target.local) return Row(view, row - tile_begin_);
  return Row(view, target.domain == Domain::kStep ? StepRow(target, rows.time, row) : row);
}

StageRunner::StageRunner(const RunState* state, int stream) : state_(*state), stream_(stream) {
  int64_t width = 0;
  for (const Buffer& each : state_.graph->buffers) {
    if (each.domain != Domain::kStatic) width = std::max(width, each.width);
  }
  zeros_.resize(static_cast<size_t>(width) * sizeof(float));
}

// Rows [row, end) of an operand as read at a step: the first run of them that lies evenly.
RowRun StageRunner::Resolve(const Operand& operand, int64_t time, int64_t row, int64_t end) {
  if (operand.delay > 0) {
    return state_.layout->has_resets() ? ResolveWithResets(operand, time, row, end)
                                       : ResolveDelayed(operand, time, row, end);
  }
  const Buffer& source = buffer(operand.view.buffer);
  const int64_t stride = source.width * ElementSize(operand.view);
  if (source.local) return {Row(operand.view, row - tile_begin_), stride, end};
  switch (source.domain) {
    case Domain::kStatic:
      return {Row(operand.view, 0), 0, end};
    case Domain::kBatch:
      return {Row(operand.view, row), stride, end};
    case Domain::kStep:
      break;
  }
  return {Row(operand.view, StepRow(source, time, row)), stride, end};
}

RowRun StageRunner::ResolveDelayed(const Operand& operand, int64_t time, int64_t row, int64_t end) {
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
  // In reverse, sequences that end before the source step are at their beginning still.
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
                                      int64_t end) {
  const Link link = LinkOf(operand, time, row);
  int64_t last = row + 1;
  while (last < end && LinkOf(operand, time, last) == link) ++last;
  return AtLink(operand, link, row, last);
}

RowRun StageRunner::AtLink(const Operand& operand, const Link& link, int64_t row, int64_t end) {
  if (link.kind == Link::Kind::kStep) {
    const Buffer& source = buffer(operand.view.buffer);
    // Only step values have a past, but for zeros that are a constant.
    const int64_t place = source.domain == Domain::kStep ? StepRow(source, link.index, row) : 0;
    const int64_t stride =
        source.domain == Domain::kStep ? source.width * ElementSize(operand.view) : 0;
    return {Row(operand.view, place), stride, end};
  }
  if (link.kind == Link::Kind::kNothing || operand.init.buffer < 0) {
    return {zeros_.data(), 0, end};
  }
  View init = operand.init;
  init.column += link.index * operand.init_stride;
  const bool shared = buffer(init.buffer).domain == Domain::kStatic;
  const int64_t stride = shared ? 0 : buffer(init.buffer).width * ElementSize(init);
  return {Row(init, shared ? 0 : row), stride, end};
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

void StageRunner::RunMatMul(const Stage& stage, const StepRows& rows) {
  const Operand& x = stage.inputs[0];
  const int64_t m = rows.row_end - rows.row_begin;
  const int64_t size = ElementSize(x.view);
  RowRun run = Resolve(x, rows.time, rows.row_begin, rows.row_end);
  ConstRows source{run.data, run.stride / size, buffer(x.view.buffer).dtype};
  if (run.end < rows.row_end) {
    pointers_.clear();
    for (int64_t row = rows.row_begin; row < rows.row_end;) {
      run = Resolve(x, rows.time, row, rows.row_end);
      for (int64_t i = 0; row < run.end; ++row, ++i) {
        pointers_.push_back(run.data + i * run.stride);
      }
    }
    source.pointers = pointers_.data();
  }
  const View& y = stage.outputs[0];
  const auto* bias =
      stage.bias.buffer < 0 ? nullptr : reinterpret_cast<const float*>(Row(stage.bias, 0));
  MatMul(source, m, (*state_.weights)[static_cast<size_t>(stage.weight)], bias, stage.accumulate,
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
  if (stage.kind == Stage::Kind::kMatMul && IsFlat(stage)) {
    return RunMatMulFlat(stage, row_begin, row_end);
  }
  if (stage.kind == Stage::Kind::kPointwise && IsFlat(stage)) {
    return RunPointwiseFlat(stage, row_begin, row_end);
  }
  for (int64_t t = time_begin; t < time_end; ++t) RunRows(stage, {t, 0, layout.count(t)});
}

void StageRunner::RunMatMulFlat(const Stage& stage, int64_t row_begin, int64_t row_end) {
  const View& x = stage.inputs[0].view;
  const View& y = stage.outputs[0];
  const auto* bias =
      stage.bias.buffer < 0 ? nullptr : reinterpret_cast<const float*>(Row(stage.bias, 0));
  MatMul({Row(x, row_begin), buffer(x.buffer).width, buffer(x.buffer).dtype}, row_end - row_begin,
         (*state_.weights)[static_cast<size_t>(stage.weight)], bias, stage.accumulate,
         {Row(y, row_begin), buffer(y.buffer).width, buffer(y.buffer).dtype});
}

void StageRunner::RunPointwiseFlat(const Stage& stage, int64_t row_begin, int64_t row_end) {
  const auto slot = [&](const View& view) {
    const Buffer& where = buffer(view.buffer);
    const bool shared = where.domain == Domain::kStatic;
    return PointwiseSlot{Row(view, shared ? 0 : row_begin), shared ? 0 : where.width, where.dtype};
  };
  inputs_.clear();
  outputs_.clear();
  for (const Operand& operand : stage.inputs) inputs_.push_back(slot(operand.view));
  for (const View& view : stage.outputs) outputs_.push_back(slot(view));
  (*stage.kernel)({row_end - row_begin, stage.outputs[0].width, inputs_.data(), outputs_.data()});
}

ConstRows StageRunner::GatherRows(const Operand& operand, int64_t time_begin, int64_t time_end,
                                  std::vector<const void*>* pointers) {
  const Buffer& source = buffer(operand.view.buffer);
  const RowLayout& layout = *state_.layout;
  if (operand.delay == 0 && source.domain == Domain::kStep) {
    return {Row(operand.view, layout.offset(time_begin)), source.width, source.dtype};
  }
  pointers->clear();
  for (int64_t t = time_begin; t < time_end; ++t) {
    for (int64_t row = 0; row < layout.count(t);) {
      const RowRun run = Resolve(operand, t, row, layout.count(t));
      for (int64_t i = 0; row < run.end; ++row, ++i) {
        pointers->push_back(run.data + i * run.stride);
      }
    }
  }
  return {nullptr, 0, source.dtype, pointers->data()};
}

void StageRunner::PackWeight(int32_t weight) {
  const PackedWeight& source = state_.graph->weights[static_cast<size_t>(weight)];
  const std::vector<int64_t>& shape = source.features;
  const int64_t heads = shape.size() == 3 ? shape[0] : 1;
  const MatrixView matrix{reinterpret_cast<const float*>(Row(source.matrix, 0)),
                          heads * shape.end()[-2], shape.back(), shape.back()};
  const DType storage =
      state_.graph->precision == Precision::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
  Pack(matrix, !source.transposed, storage, &(*state_.weights)[static_cast<size_t>(weight)], heads);
}

}  // namespace turbolstm
