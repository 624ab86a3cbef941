#pragma once

#include <span>
#include <string_view>

namespace turbolstm::cuda {

// The kernels of one program compiled ahead of time, under its KernelKey; by KernelVariant, null
// where there is none.
struct CudaKernelRegistration {
  std::string_view key;
  const void* functions[3];
};

// Makes kernels known to CompilePointwise; the keys must live as long as the program. Emitted
// sources define a function that calls this, and whoever links them calls that once.
void RegisterCudaKernels(std::span<const CudaKernelRegistration> kernels);

}  // namespace turbolstm::cuda
