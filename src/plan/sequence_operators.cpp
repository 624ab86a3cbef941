// Operators that look at whole sequences, or at all of them.

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "plan/row_operators.h"
#include "plan/stage_runner.h"

namespace turbolstm {
namespace {

// The walk of the delayed edge that an operator stands at the end of.
Walk EdgeWalk(const RowLayout& layout, const Stage& stage, int64_t row) {
  return layout.WalkOf(row, stage.inputs[0].direction);
}

// Where x is greater than the maximum so far it is the maximum, first seen at step t. The pointers
// never overlap, and nothing branches, so that the compiler makes vectors of it.
template <typename T>
void RaiseMaxima(const T* __restrict x, int64_t n, int32_t t, float* __restrict most,
                 int32_t* __restrict first) {
  for (int64_t i = 0; i < n; ++i) {
    const auto value = static_cast<float>(x[i]);
    const bool greater = value > most[i];
    most[i] = greater ? value : most[i];
    first[i] = greater ? t : first[i];
  }
}

}  // namespace

void StageRunner::RunWhole(const Stage& stage) {
  if (stage.op == Op::kScatterAdd) return RunScatterAdd(stage);
  if (stage.op == Op::kSumTime) return RunSumTime(stage);
  if (stage.op == Op::kFirstMaxMask) return RunFirstMaxMask(stage);
  for (int64_t row = 0; row < state_.layout->batch(); ++row) RunSequence(stage, row);
}

void StageRunner::RunSequence(const Stage& stage, int64_t row) const {
  switch (stage.op) {
    case Op::kFinal:
      return RunFinal(stage, row);
    case Op::kFinalGrad:
      return RunFinalGrad(stage, row);
    case Op::kFinalInitGrad:
      return RunFinalInitGrad(stage, row);
    case Op::kInitGrad:
      return RunInitGrad(stage, row);
    default:
      Fail("[{}] {} cannot run", stage.name, Traits(stage.op).name);
  }
}

ConstRow StageRunner::OperandRow(const Stage& stage, size_t i, int64_t time, int64_t row) const {
  const Operand& operand = stage.inputs[i];
  return {Resolve(operand, time, row, row + 1).data, buffer(operand.view.buffer).dtype};
}

MutableRow StageRunner::ResultRow(const Stage& stage, int64_t time, int64_t row) const {
  const View& view = stage.outputs[0];
  return {OutputRow(view, {time, row, row + 1}, row), buffer(view.buffer).dtype};
}

float* StageRunner::ZeroedBatchRow(const Stage& stage, int64_t row) const {
  auto* y = reinterpret_cast<float*>(Address(stage.outputs[0], row));
  std::fill_n(y, stage.outputs[0].width, 0.0f);
  return y;
}

// Step by step, as the rows lie; each sequence is summed from its first step on all the same.
void StageRunner::RunSumTime(const Stage& stage) const {
  const RowLayout& layout = *state_.layout;
  for (int64_t row = 0; row < layout.batch(); ++row) ZeroedBatchRow(stage, row);
  for (int64_t t = 0; t < layout.steps(); ++t) {
    for (int64_t row = 0; row < layout.count(t); ++row) {
      auto* y = reinterpret_cast<float*>(Address(stage.outputs[0], row));
      OperandRow(stage, 0, t, row).AddTo(y, 0, stage.outputs[0].width);
    }
  }
}

void StageRunner::RunFirstMaxMask(const Stage& stage) const {
  const RowLayout& layout = *state_.layout;
  const int64_t n = stage.outputs[0].width;
  const auto count = static_cast<size_t>(layout.batch() * n);
  std::vector<float> most(count, -std::numeric_limits<float>::infinity());
  std::vector<int32_t> first(count, 0);
  for (int64_t t = 0; t < layout.steps(); ++t) {
    for (int64_t row = 0; row < layout.count(t); ++row) {
      OperandRow(stage, 0, t, row).Visit([&](const auto* x) {
        RaiseMaxima(x, n, static_cast<int32_t>(t), most.data() + row * n, first.data() + row * n);
      });
      ResultRow(stage, t, row).Fill(n, 0);
    }
  }
  for (int64_t row = 0; row < layout.batch() && layout.length(row) > 0; ++row) {
    for (int64_t i = 0; i < n; ++i) ResultRow(stage, first[row * n + i], row).Set(i, 1);
  }
}

void StageRunner::RunFinal(const Stage& stage, int64_t row) const {
  const Operand& x = stage.inputs[0];
  const Walk walk = EdgeWalk(*state_.layout, stage, row);
  const MutableRow y = ResultRow(stage, 0, row);
  for (int64_t j = 0; j < x.delay; ++j) {
    const Link link = walk.Read(walk.length() + j, x.delay);
    const ConstRow read(AtLink(x, link, row, row + 1).data, buffer(x.view.buffer).dtype);
    y.Copy(j * x.view.width, read, 0, x.view.width);
  }
}

void StageRunner::RunFinalGrad(const Stage& stage, int64_t row) const {
  const int64_t n = stage.outputs[0].width;
  const Walk walk = EdgeWalk(*state_.layout, stage, row);
  for (int64_t t = 0; t < walk.length(); ++t) {
    const Link link = walk.ReadFinal(walk.Position(t), stage.attributes.size);
    const MutableRow y = ResultRow(stage, t, row);
    if (link.kind == Link::Kind::kInit) {
      y.Copy(0, OperandRow(stage, 0, t, row), link.index * n, n);
    } else {
      y.Fill(n, 0);
    }
  }
}

// What a reader behind the end finds in the initial value goes back there.
void StageRunner::RunFinalInitGrad(const Stage& stage, int64_t row) const {
  const int64_t delay = stage.attributes.size;
  const int64_t width = stage.outputs[0].width / delay;
  float* y = ZeroedBatchRow(stage, row);
  const Walk walk = EdgeWalk(*state_.layout, stage, row);
  for (int64_t j = 0; j < delay; ++j) {
    const Link link = walk.Read(walk.length() + j, delay);
    if (link.kind != Link::Kind::kInit) continue;
    OperandRow(stage, 0, 0, row).AddTo(y + link.index * width, j * width, width);
  }
}

// Likewise for the readers within the sequence.
void StageRunner::RunInitGrad(const Stage& stage, int64_t row) const {
  const int64_t delay = stage.attributes.size;
  const int64_t width = stage.outputs[0].width / delay;
  float* y = ZeroedBatchRow(stage, row);
  const Walk walk = EdgeWalk(*state_.layout, stage, row);
  for (int64_t u = 0; u < walk.length(); ++u) {
    const Link link = walk.Read(u, delay);
    if (link.kind != Link::Kind::kInit) continue;
    OperandRow(stage, 0, walk.Position(u), row).AddTo(y + link.index * width, 0, width);
  }
}

// In the order of the rows, so that the bits do not depend on the plan.
void StageRunner::RunScatterAdd(const Stage& stage) const {
  const RowLayout& layout = *state_.layout;
  const bool steps = stage.domain == Domain::kStep;
  const int64_t width = stage.inputs[1].view.width;
  auto* y = reinterpret_cast<float*>(Address(stage.outputs[0], 0));
  std::fill_n(y, stage.outputs[0].width, 0.0f);
  for (int64_t t = 0; t < (steps ? layout.steps() : 1); ++t) {
    for (int64_t row = 0; row < (steps ? layout.count(t) : layout.batch()); ++row) {
      const int32_t entry =
          CheckedIndex(stage, {t, row, layout.sequence(row)}, OperandRow(stage, 0, t, row).index(),
                       stage.attributes.size);
      OperandRow(stage, 1, t, row).AddTo(y + entry * width, 0, width);
    }
  }
}

}  // namespace turbolstm
