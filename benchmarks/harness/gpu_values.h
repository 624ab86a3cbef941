#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace turbolstm::bench {

// How the elements of a buffer are stored.
enum class GpuType { kFloat, kBfloat16, kHalf };

size_t BytesOf(GpuType type);

// Fills `data` with normally distributed numbers of this deviation, the same for the same seed.
cudaError_t FillNormal(void* data, size_t elements, GpuType type, float deviation, uint64_t seed,
                       cudaStream_t stream);

// Adds the number of elements that are infinite or not a number to `*count`, on the GPU.
cudaError_t CountNotFinite(const void* data, size_t elements, GpuType type,
                           unsigned long long* count, cudaStream_t stream);

}  // namespace turbolstm::bench
