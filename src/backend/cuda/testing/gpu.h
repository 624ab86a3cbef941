#pragma once

#include <gtest/gtest.h>

#include <string>

#include "turbolstm/device.h"

namespace turbolstm {

// Why no NVIDIA GPU answers; empty when one does.
inline std::string GpuAbsence() {
  for (const BackendInfo& backend : ListBackends()) {
    if (backend.kind == DeviceKind::kCuda) return backend.absence;
  }
  return "no CUDA backend";
}

}  // namespace turbolstm

// Ends a test, or the set-up of its fixture, where no GPU answers, and says why.
#define SKIP_WITHOUT_GPU()                                                     \
  if (const std::string absence = ::turbolstm::GpuAbsence(); !absence.empty()) \
  GTEST_SKIP() << absence
