#pragma once

#include <gtest/gtest.h>

#include <string>

#include "plan/comparison.h"
#include "turbolstm/device.h"

namespace turbolstm {

// Why no GPU answers; empty when one does.
inline std::string GpuAbsence() {
  for (const BackendInfo& backend : ListBackends()) {
    if (backend.kind == DeviceKind::kCuda) return backend.absence;
  }
  return "no CUDA backend";
}

#define SKIP_WITHOUT_GPU() \
  if (const std::string absence = GpuAbsence(); !absence.empty()) GTEST_SKIP() << absence

// Against the float64 interpreter, relative to the largest magnitude of an output (at least 1).
// Layer normalisation divides by the spread of few elements, so that what is rounded before it
// shows more behind it.
inline double GpuTolerance(Precision precision, const std::string& cell = "") {
  if (cell == "layer_norm_lstm") return 5 * GpuTolerance(precision);
  switch (precision) {
    case Precision::kFloat32:
      return kFloat32Tolerance;
    case Precision::kTf32:
    case Precision::kFloat16:
      return 4e-3;
    case Precision::kBFloat16:
      break;
  }
  return kBFloat16Tolerance;
}

}  // namespace turbolstm
