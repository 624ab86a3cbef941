#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace turbolstm::cuda {

// The kernel "loop" of a source, compiled for the current device. Kernels stay loaded, by source,
// as long as the process runs.
cudaKernel_t LoadLoopKernel(const std::string& source);

}  // namespace turbolstm::cuda
