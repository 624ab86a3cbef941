#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace turbolstm {

// One element of a pointwise operator from the matching elements of its operands, in float64.
inline double PointwiseReference(Op op, const std::vector<double>& x) {
  switch (op) {
    case Op::kIdentity:
      return x[0];
    case Op::kAdd: {
      double sum = 0;
      for (const double term : x) sum += term;
      return sum;
    }
    case Op::kSub:
      return x[0] - x[1];
    case Op::kMul:
      return x[0] * x[1];
    case Op::kDiv:
      return x[0] / x[1];
    case Op::kMax:
      return std::max(x[0], x[1]);
    case Op::kMin:
      return std::min(x[0], x[1]);
    case Op::kNeg:
      return -x[0];
    case Op::kSigmoid:
      return 1 / (1 + std::exp(-x[0]));
    case Op::kTanh:
      return std::tanh(x[0]);
    case Op::kRelu:
      return std::max(x[0], 0.0);
    case Op::kSoftplus:
      return std::max(x[0], 0.0) + std::log1p(std::exp(-std::abs(x[0])));
    case Op::kLogSigmoid:
      return std::min(x[0], 0.0) - std::log1p(std::exp(-std::abs(x[0])));
    case Op::kExp:
      return std::exp(x[0]);
    case Op::kLog:
      return std::log(x[0]);
    case Op::kSqrt:
      return std::sqrt(x[0]);
    case Op::kReciprocal:
      return 1 / x[0];
    case Op::kAbs:
      return std::abs(x[0]);
    case Op::kSin:
      return std::sin(x[0]);
    case Op::kCos:
      return std::cos(x[0]);
    case Op::kGreater:
      return x[0] > x[1] ? 1 : 0;
    case Op::kSelect:
      return x[0] != 0 ? x[1] : x[2];
    default:
      Fail("[{}] is not pointwise", Traits(op).name);
  }
}

}  // namespace turbolstm
