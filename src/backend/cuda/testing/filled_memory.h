#pragma once

#include <cstdlib>

#include "backend/cuda/runtime_cuda.h"

namespace turbolstm::cuda {

// Fills new memory of the device with a byte for as long as it lives.
class FilledMemory {
 public:
  explicit FilledMemory(const char* byte) { setenv(kFillMemoryVariable, byte, 1); }
  ~FilledMemory() { unsetenv(kFillMemoryVariable); }
  FilledMemory(const FilledMemory&) = delete;
  FilledMemory& operator=(const FilledMemory&) = delete;
};

}  // namespace turbolstm::cuda
