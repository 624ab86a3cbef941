#include "nn/losses.h"

namespace turbolstm {
namespace {

Value MeanOverRows(const Value& x) {
  Builder& b = x.builder();
  const Domain domain = b.graph().node(x.id()).domain;
  return SumRows(x) / Max(b.RowCount(domain), b.Constant(1.0));
}

}  // namespace

Value CrossEntropyLoss(const Value& logits, const Value& label) {
  return MeanOverRows(logits.builder().Apply(Op::kCrossEntropy, {logits, label}));
}

Value MeanSquaredError(const Value& y, const Value& target) {
  const Value difference = y - target;
  return MeanOverRows(1.0 / static_cast<double>(y.features()) * RowSum(difference * difference));
}

}  // namespace turbolstm
