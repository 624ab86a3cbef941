// Where a stage finds the rows of its operands, and where it writes.

#include <algorithm>

#include "base/error.h"
#include "execution/stage_enqueuer_cuda.h"

namespace turbolstm::cuda {
namespace {

signed char Code(DType dtype) {
  return static_cast<signed char>(dtype);
}

}  // namespace

// Programs and operators write zeros to padded rows, and a product without a bias of such rows of
// the same step has them too.
void StageEnqueuer::FindZeroPadded() {
  zero_padded_.assign(graph_.buffers.size(), true);
  for (bool changed = true; changed;) {
    changed = false;
    ForEachStage(graph_, [&](const Stage& stage) {
      if (stage.kind != Stage::Kind::kMatMul) return;
      const Operand& x = stage.inputs[0];
      const bool zero = stage.bias.buffer < 0 && x.delay == 0 &&
                        buffer(x.view).domain == Domain::kStep &&
                        zero_padded_[static_cast<size_t>(x.view.buffer)];
      const auto to = static_cast<size_t>(stage.outputs[0].buffer);
      changed |= !zero && zero_padded_[to];
      if (!zero) zero_padded_[to] = false;
    });
  }
}

std::byte* StageEnqueuer::Address(const View& view, int64_t row) const {
  return memory_.base(view.buffer) + (row * buffer(view).width + view.column) * ElementSize(view);
}

int64_t StageEnqueuer::StepRow(const View& view, int64_t time) const {
  return time % memory_.period(view.buffer) * shape_.batch;
}

RowOperand StageEnqueuer::OperandOf(const Operand& operand) const {
  const Buffer& source = buffer(operand.view);
  RowOperand x;
  x.data = reinterpret_cast<const char*>(Address(operand.view, 0));
  x.row_bytes = source.width * ElementSize(operand.view);
  x.dtype = Code(source.dtype);
  x.delay = operand.delay;
  x.direction = static_cast<signed char>(operand.direction);
  x.adjoint = operand.adjoint;
  switch (source.domain) {
    case Domain::kStatic:
      x.kind = RowKind::kShared;
      x.row_bytes = 0;
      break;
    case Domain::kBatch:
      x.kind = RowKind::kBatch;
      break;
    case Domain::kStep:
      x.kind = RowKind::kStep;
      x.period = memory_.period(operand.view.buffer);
      break;
  }
  if (operand.init.buffer >= 0) {
    const Buffer& init = buffer(operand.init);
    TL_CHECK(init.dtype == source.dtype, "[execution] {} is {}, its initial value {}", source.name,
             Name(source.dtype), Name(init.dtype));
    x.init = reinterpret_cast<const char*>(Address(operand.init, 0));
    x.init_row_bytes = init.domain == Domain::kBatch ? init.width * ElementSize(operand.init) : 0;
    x.init_step_bytes = operand.init_stride * ElementSize(operand.init);
  }
  return x;
}

// With the step settled where it can be, so that the kernel has nothing to find out.
RowOperand StageEnqueuer::OperandAt(const Operand& operand, int64_t time) const {
  RowOperand x = OperandOf(operand);
  if (buffer(operand.view).domain != Domain::kStep && operand.delay == 0) return x;
  if (!LiesEvenly(operand)) return x;
  const int64_t source = operand.delay == 0 ? time : SourceStep(operand, time);
  x.delay = 0;
  if (source < 0 || source >= shape_.steps) {
    const View init = InitRow(operand, time);
    x.kind = x.init_row_bytes > 0 ? RowKind::kBatch : RowKind::kShared;
    x.row_bytes = x.init_row_bytes;
    x.data = init.buffer < 0 ? nullptr : reinterpret_cast<const char*>(Address(init, 0));
    return x;
  }
  x.kind = RowKind::kBatch;
  x.data = reinterpret_cast<const char*>(Address(operand.view, StepRow(operand.view, source)));
  return x;
}

RowOutput StageEnqueuer::OutputOf(const View& view) const {
  const Buffer& target = buffer(view);
  RowOutput y;
  y.data = reinterpret_cast<char*>(Address(view, 0));
  y.row_bytes = target.domain == Domain::kStatic ? 0 : target.width * ElementSize(view);
  y.dtype = Code(target.dtype);
  y.kind = target.domain == Domain::kStep    ? RowKind::kStep
           : target.domain == Domain::kBatch ? RowKind::kBatch
                                             : RowKind::kShared;
  if (y.kind == RowKind::kStep) y.period = memory_.period(view.buffer);
  return y;
}

RowOutput StageEnqueuer::OutputAt(const View& view, int64_t time) const {
  RowOutput y = OutputOf(view);
  if (y.kind != RowKind::kStep) return y;
  y.kind = RowKind::kBatch;
  y.data = reinterpret_cast<char*>(Address(view, StepRow(view, time)));
  return y;
}

// In reverse, shorter sequences begin within the steps: what stands there must be what their first
// step is to find.
bool StageEnqueuer::LiesEvenly(const Operand& operand) const {
  const Buffer& source = buffer(operand.view);
  if (operand.delay == 0) return source.domain != Domain::kStatic;
  if (source.domain != Domain::kStep || shape_.resets) return false;
  if (operand.direction == Direction::kForward || !shape_.ragged) return true;
  return operand.init.buffer < 0 && zero_padded_[static_cast<size_t>(operand.view.buffer)];
}

// Whether a product's operand has to be brought together first.
bool StageEnqueuer::MustGather(const Stage& stage, size_t i, bool one_step) const {
  const Operand& operand = stage.inputs[i];
  if (stage.domain == Domain::kStatic) return false;
  if (stage.op != Op::kOuter && (one_step || stage.domain != Domain::kStep)) {
    return !LiesEvenly(operand);
  }
  if (stage.op == Op::kOuter && CanShift(stage)) return false;
  // Padded rows of both operands would be added up.
  const bool padded = stage.op == Op::kOuter && i == 0 && shape_.ragged &&
                      stage.domain == Domain::kStep && sums_with_zero_padding_.count(&stage) == 0;
  return padded || operand.delay > 0 || buffer(operand.view).domain != stage.domain;
}

// The initial value that is read where there is no source step.
View StageEnqueuer::InitRow(const Operand& operand, int64_t time) const {
  if (operand.adjoint || operand.init.buffer < 0) return {};
  View init = operand.init;
  const int64_t position =
      operand.direction == Direction::kForward ? time : shape_.steps - 1 - time;
  init.column += position * operand.init_stride;
  return init;
}

StageEnqueuer::Rows StageEnqueuer::RowsAt(const Operand& operand, int64_t time) {
  const Buffer& source = buffer(operand.view);
  if (!LiesEvenly(operand)) return Gathered(operand, {time, 1, shape_.ragged}, 0);
  if (source.domain == Domain::kBatch) {
    return {Address(operand.view, 0), source.width, source.dtype};
  }
  const int64_t step = operand.delay == 0 ? time : SourceStep(operand, time);
  if (step >= 0 && step < shape_.steps) {
    return {Address(operand.view, StepRow(operand.view, step)), source.width, source.dtype};
  }
  const View init = InitRow(operand, time);
  if (init.buffer < 0) return {nullptr, operand.view.width, source.dtype};
  if (buffer(init).domain == Domain::kStatic) {
    return Gathered(operand, {time, 1, shape_.ragged}, 0);
  }
  return {Address(init, 0), buffer(init).width, source.dtype};
}

StageEnqueuer::Rows StageEnqueuer::Gathered(const Operand& operand, const RowRange& range,
                                            size_t slot) {
  const DType dtype = buffer(operand.view).dtype;
  GatherRows({OperandOf(operand), operand.view.width}, range, dtype, gathered_[room_][slot].data(),
             context_);
  return {gathered_[room_][slot].data(), operand.view.width, dtype};
}

}  // namespace turbolstm::cuda
