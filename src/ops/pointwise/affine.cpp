#include "ops/pointwise/affine.h"

namespace turbolstm {
namespace {

// Whether a result is linear in what follows from the state, given which operands do.
bool IsAffine(PointwiseOp op, bool a, bool b, bool c) {
  if (!a && !b && !c) return true;
  switch (op) {
    case PointwiseOp::kAdd:
    case PointwiseOp::kSub:
    case PointwiseOp::kNeg:
    case PointwiseOp::kOneMinus:
    case PointwiseOp::kCopy:
      return true;
    case PointwiseOp::kMul:
      return !(a && b);
    case PointwiseOp::kDiv:
      return !b;
    case PointwiseOp::kSelect:
      return !a;
    default:
      return false;
  }
}

}  // namespace

std::optional<AffineOutput> FindAffine(const PointwiseProgram& program, size_t state,
                                       size_t output) {
  const auto values = static_cast<size_t>(program.ValueCount());
  const auto first = static_cast<size_t>(program.FirstResult());
  AffineOutput found{std::vector<bool>(values, false), std::vector<bool>(values, false)};
  const auto result = static_cast<size_t>(program.outputs[output]);
  found.needed[result] = true;
  for (size_t value = values; value-- > first;) {
    const PointwiseInstruction& step = program.code[value - first];
    if (!found.needed[value]) continue;
    const int operands = OperandCount(step.op);
    found.needed[static_cast<size_t>(step.a)] = true;
    if (operands > 1) found.needed[static_cast<size_t>(step.b)] = true;
    if (operands > 2) found.needed[static_cast<size_t>(step.c)] = true;
  }
  if (!found.needed[state]) return std::nullopt;
  found.follows[state] = true;
  for (size_t value = first; value < values; ++value) {
    const PointwiseInstruction& step = program.code[value - first];
    if (!found.needed[value]) continue;
    const int operands = OperandCount(step.op);
    const bool a = found.follows[static_cast<size_t>(step.a)];
    const bool b = operands > 1 && found.follows[static_cast<size_t>(step.b)];
    const bool c = operands > 2 && found.follows[static_cast<size_t>(step.c)];
    if (!IsAffine(step.op, a, b, c)) return std::nullopt;
    found.follows[value] = a || b || c;
  }
  return found;
}

}  // namespace turbolstm
