#pragma once

#include <cuda_runtime_api.h>

namespace turbolstm::cuda {

// Throws Error with the failing expression, and what the runtime says of it.
[[noreturn]] void FailCuda(const char* expression, cudaError_t error);

}  // namespace turbolstm::cuda

#define TL_CUDA_CHECK(expression)                                                    \
  do {                                                                               \
    const cudaError_t tl_error = (expression);                                       \
    if (tl_error != cudaSuccess) ::turbolstm::cuda::FailCuda(#expression, tl_error); \
  } while (false)
