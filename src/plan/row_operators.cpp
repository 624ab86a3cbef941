// Operators that are neither products nor pointwise, row by row.

#include "plan/row_operators.h"

#include <cmath>

#include "base/error.h"
#include "base/philox.h"
#include "ops/rows/random_mask.h"
#include "ops/rows/reductions.h"
#include "plan/stage_runner.h"

namespace turbolstm {
namespace {

// One row of one stage.
struct RowTask {
  const RunState& state;
  const Stage& stage;
  const RowPlace& place;
  const std::vector<ConstRow>& x;
  const MutableRow& y;

  int64_t width() const { return stage.outputs[0].width; }
  int64_t operand_width() const { return stage.inputs[0].view.width; }
};

// Where rows in bf16 are widened.
std::vector<float>* Scratch() {
  thread_local std::vector<float> scratch;
  return &scratch;
}

void RandomMask(const RowTask& task) {
  const Attributes& a = task.stage.attributes;
  const int64_t n = task.width();
  if (!task.state.training) return task.y.Fill(n, static_cast<float>(a.mean));
  const auto scale = static_cast<float>(a.scale);
  const RandomSite site{task.state.seed, task.state.training_step, static_cast<uint32_t>(a.site)};
  // Numbered as the caller's rows are, so that the layout does not change what is drawn.
  const int64_t row = task.stage.domain == Domain::kStep
                          ? task.place.time * task.state.layout->batch() + task.place.sequence
                          : task.place.sequence;
  task.y.Write(n, Scratch(), [&](float* y) {
    DrawRandomMask(site, static_cast<uint64_t>(row * n), n, a.number, scale, y);
  });
}

void RowSum(const RowTask& task) {
  const int64_t n = task.operand_width();
  task.y.Set(0, static_cast<float>(SumOfRow(task.x[0].Floats(n, Scratch()), n)));
}

void Pad(const RowTask& task) {
  task.y.Fill(task.width(), 0);
  task.y.Copy(task.stage.attributes.begin, task.x[0], 0, task.operand_width());
}

// The table is Static: all of it is the operand's "row".
void Gather(const RowTask& task) {
  const int64_t n = task.width();
  const int32_t entry =
      CheckedIndex(task.stage, task.place, task.x[1].index(), task.stage.attributes.size);
  task.y.Copy(0, task.x[0], entry * n, n);
}

void OneHot(const RowTask& task) {
  const int32_t index = CheckedIndex(task.stage, task.place, task.x[0].index(), task.width());
  task.y.Fill(task.width(), 0);
  task.y.Set(index, 1);
}

void CrossEntropy(const RowTask& task) {
  const int64_t n = task.operand_width();
  const float* logits = task.x[0].Floats(n, Scratch());
  const int32_t target = CheckedIndex(task.stage, task.place, task.x[1].index(), n);
  const float most = MaxOfRow(logits, n);
  const double sum = SumOfExpOfRow(logits, n, most);
  task.y.Set(0, static_cast<float>(std::log(sum) + most - logits[target]));
}

}  // namespace

int32_t CheckedIndex(const Stage& stage, const RowPlace& place, int32_t index, int64_t size) {
  TL_CHECK(index >= 0 && index < size, "[{}] index {} is outside 0 to {} (step {}, sequence {})",
           stage.name, index, size - 1, place.time, place.sequence);
  return index;
}

void SoftmaxRow(const ConstRow& x, int64_t n, const MutableRow& y) {
  thread_local std::vector<float> scratch;  // besides that of the operand
  const float* logits = x.Floats(n, Scratch());
  const float most = MaxOfRow(logits, n);
  const auto scale = static_cast<float>(1 / SumOfExpOfRow(logits, n, most));
  y.Write(n, &scratch, [&](float* p) { ScaledExpOfRow(logits, n, most, scale, p); });
}

void EvaluateRow(const RunState& state, const Stage& stage, const RowPlace& place,
                 const std::vector<ConstRow>& operands, const MutableRow& result) {
  const RowTask task{state, stage, place, operands, result};
  switch (stage.op) {
    case Op::kConstant:
      return result.Set(0, static_cast<float>(stage.attributes.number));
    case Op::kLengths:
      return result.Set(0, static_cast<float>(state.layout->length(place.row)));
    case Op::kRowCount:
      return result.Set(0, static_cast<float>(RowCount(state, stage)));
    case Op::kRandomMask:
      return RandomMask(task);
    case Op::kRowSum:
      return RowSum(task);
    case Op::kPad:
      return Pad(task);
    case Op::kGather:
      return Gather(task);
    case Op::kOneHot:
      return OneHot(task);
    case Op::kSoftmax:
      return SoftmaxRow(operands[0], task.width(), result);
    case Op::kCrossEntropy:
      return CrossEntropy(task);
    default:
      Fail("[{}] {} does not run row by row", stage.name, Traits(stage.op).name);
  }
}

}  // namespace turbolstm
