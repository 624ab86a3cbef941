#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/bfloat16.h"
#include "base/error.h"
#include "ops/pointwise/kernel.h"

namespace turbolstm {
namespace {

int64_t Offset(InputKind kind, const PointwiseSlot& slot, int64_t r, int64_t j) {
  switch (kind) {
    case InputKind::kElement:
      return r * slot.row_stride + j;
    case InputKind::kRowVector:
      return j;
    case InputKind::kColumn:
      return r * slot.row_stride;
    case InputKind::kScalar:
      break;
  }
  return 0;
}

double Load(const PointwiseSlot& slot, int64_t offset) {
  switch (slot.dtype) {
    case DType::kFloat32:
      return static_cast<const float*>(slot.data)[offset];
    case DType::kFloat64:
      return static_cast<const double*>(slot.data)[offset];
    case DType::kBFloat16:
      return static_cast<float>(static_cast<const BFloat16*>(slot.data)[offset]);
    default:
      Fail("[pointwise] an input is {}, wants float32, float64 or bfloat16", Name(slot.dtype));
  }
}

void Store(const PointwiseSlot& slot, int64_t offset, double value) {
  switch (slot.dtype) {
    case DType::kFloat32:
      static_cast<float*>(slot.data)[offset] = static_cast<float>(value);
      return;
    case DType::kFloat64:
      static_cast<double*>(slot.data)[offset] = value;
      return;
    case DType::kBFloat16:
      static_cast<BFloat16*>(slot.data)[offset] = BFloat16(static_cast<float>(value));
      return;
    default:
      Fail("[pointwise] an output is {}, wants float32, float64 or bfloat16", Name(slot.dtype));
  }
}

// log(1 + exp(x)) without overflow.
double Softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}

bool AnyNan(double a, double b) {
  return std::isnan(a) || std::isnan(b);
}

double Evaluate(PointwiseOp op, double a, double b, double c) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  switch (op) {
    case PointwiseOp::kAdd:
      return a + b;
    case PointwiseOp::kSub:
      return a - b;
    case PointwiseOp::kMul:
      return a * b;
    case PointwiseOp::kDiv:
      return a / b;
    case PointwiseOp::kMax:
      return AnyNan(a, b) ? kNan : std::max(a, b);
    case PointwiseOp::kMin:
      return AnyNan(a, b) ? kNan : std::min(a, b);
    case PointwiseOp::kNeg:
      return -a;
    case PointwiseOp::kOneMinus:
      return 1 - a;
    case PointwiseOp::kSigmoid:
      return 1 / (1 + std::exp(-a));
    case PointwiseOp::kTanh:
      return std::tanh(a);
    case PointwiseOp::kRelu:
      return a < 0 ? 0 : a;
    case PointwiseOp::kSoftplus:
      return std::isnan(a) ? kNan : Softplus(a);
    case PointwiseOp::kLogSigmoid:
      return std::isnan(a) ? kNan : -Softplus(-a);
    case PointwiseOp::kExp:
      return std::exp(a);
    case PointwiseOp::kLog:
      return std::log(a);
    case PointwiseOp::kSqrt:
      return std::sqrt(a);
    case PointwiseOp::kRsqrt:
      return 1 / std::sqrt(a);
    case PointwiseOp::kReciprocal:
      return 1 / a;
    case PointwiseOp::kAbs:
      return std::abs(a);
    case PointwiseOp::kSin:
      return std::sin(a);
    case PointwiseOp::kCos:
      return std::cos(a);
    case PointwiseOp::kGreater:
      return a > b ? 1 : 0;
    case PointwiseOp::kSelect:
      return a != 0 ? b : c;
    case PointwiseOp::kCopy:
      return a;
  }
  return kNan;
}

}  // namespace

void RunPointwiseReference(const PointwiseProgram& program, const PointwiseArgs& args) {
  program.Validate();
  std::vector<double> values(program.ValueCount());
  std::copy(program.constants.begin(), program.constants.end(),
            values.begin() + program.FirstConstant());
  for (int64_t r = 0; r < args.rows; ++r) {
    for (int64_t j = 0; j < args.n; ++j) {
      for (size_t i = 0; i < program.inputs.size(); ++i) {
        values[i] = Load(args.inputs[i], Offset(program.inputs[i], args.inputs[i], r, j));
      }
      size_t value = program.FirstResult();
      for (const auto& [op, a, b, c] : program.code) {
        values[value++] = Evaluate(op, values[a], values[b], values[c]);
      }
      for (size_t i = 0; i < program.outputs.size(); ++i) {
        Store(args.outputs[i], r * args.outputs[i].row_stride + j, values[program.outputs[i]]);
      }
    }
  }
}

}  // namespace turbolstm
