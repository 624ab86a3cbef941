#pragma once

#include <string>

#include "backend/cuda/testing/gpu.h"
#include "plan/comparison.h"

namespace turbolstm {

// fp32 against another device's fp32 where gradients are sums over up to millions of rows, which
// the two add up in different orders; relative in the same way.
inline constexpr double kLongSumTolerance = 1e-4;

// Against the float64 interpreter, relative to the largest magnitude of an output (at least 1).
// Layer normalisation divides by the spread of few elements, so that what is rounded before it
// shows more behind it.
inline double GpuTolerance(Precision precision, const std::string& cell = "") {
  if (cell == "layer_norm_lstm") return 5 * GpuTolerance(precision);
  switch (precision) {
    case Precision::kFloat32:
    case Precision::kBf16x6:
      return kFloat32Tolerance;
    case Precision::kTf32:
    case Precision::kFloat16:
      return 5e-3;
    case Precision::kBFloat16:
      break;
  }
  return kBFloat16Tolerance;
}

}  // namespace turbolstm
