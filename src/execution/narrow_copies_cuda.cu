// 16-bit copies of matrices.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <span>

#include "backend/cuda/check_cuda.h"
#include "execution/operators_cuda.h"

namespace turbolstm::cuda {
namespace {

__device__ __forceinline__ unsigned Narrow(float x, __nv_bfloat16) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
__device__ __forceinline__ unsigned Narrow(float x, __half) {
  return __half_as_ushort(__float2half_rn(x));
}

constexpr int64_t kMostBlocks = 2048;  // of a matrix
constexpr int kMostCopies = 16;        // of a launch
constexpr int kCopyThreads = 256;

struct NarrowCopies {
  NarrowCopy copies[kMostCopies];
};

// Four elements a thread.
template <typename Type>
__global__ void __launch_bounds__(kCopyThreads) CopyNarrowKernel(const NarrowCopies all) {
  const NarrowCopy& copy = all.copies[blockIdx.y];
  const long long row_chunks = copy.stride / 4;
  const bool whole = copy.columns % 4 == 0 && reinterpret_cast<uintptr_t>(copy.x) % 16 == 0;
  for (long long k = blockIdx.x * static_cast<long long>(kCopyThreads) + threadIdx.x;
       k < copy.rows * row_chunks; k += gridDim.x * static_cast<long long>(kCopyThreads)) {
    const long long row = k / row_chunks;
    const long long column = k % row_chunks * 4;
    const float* const from = copy.x + row * copy.columns + column;
    float4 x = make_float4(0, 0, 0, 0);
    if (whole && column < copy.columns) {
      x = *reinterpret_cast<const float4*>(from);
    } else if (!whole) {
      if (column < copy.columns) x.x = from[0];
      if (column + 1 < copy.columns) x.y = from[1];
      if (column + 2 < copy.columns) x.z = from[2];
      if (column + 3 < copy.columns) x.w = from[3];
    }
    const uint2 bits = {Narrow(x.x, Type{}) | Narrow(x.y, Type{}) << 16,
                        Narrow(x.z, Type{}) | Narrow(x.w, Type{}) << 16};
    *reinterpret_cast<uint2*>(static_cast<unsigned short*>(copy.y) + row * copy.stride + column) =
        bits;
  }
}

}  // namespace

void CopyNarrow(std::span<const NarrowCopy> copies, DType to, cudaStream_t stream) {
  for (size_t first = 0; first < copies.size(); first += kMostCopies) {
    NarrowCopies some{};
    const size_t count = std::min<size_t>(kMostCopies, copies.size() - first);
    int64_t most = 0;
    for (size_t i = 0; i < count; ++i) {
      some.copies[i] = copies[first + i];
      most = std::max(most, some.copies[i].rows * some.copies[i].stride / 4);
    }
    if (most == 0) continue;
    const int64_t blocks = std::min(kMostBlocks, (most + kCopyThreads - 1) / kCopyThreads);
    const dim3 grid(static_cast<unsigned>(blocks), static_cast<unsigned>(count));
    if (to == DType::kBFloat16) {
      CopyNarrowKernel<__nv_bfloat16><<<grid, kCopyThreads, 0, stream>>>(some);
    } else {
      CopyNarrowKernel<__half><<<grid, kCopyThreads, 0, stream>>>(some);
    }
    TL_CUDA_CHECK(cudaGetLastError());
  }
}

}  // namespace turbolstm::cuda
