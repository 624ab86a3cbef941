#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "harness/gpu_values.h"

namespace turbolstm::bench {
namespace {

constexpr int kBlocks = 1024;
constexpr int kThreads = 256;

// SplitMix64 (Steele, Lea, Flood 2014): well mixed bits of a counter.
__device__ uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// Normal by Box and Muller from the two halves of the counter's bits.
__device__ float Normal(uint64_t counter, uint64_t seed) {
  const uint64_t bits = Mix(counter ^ Mix(seed));
  const float radius = (static_cast<float>(bits >> 40) + 1.0f) * 0x1p-24f;
  const float angle = static_cast<float>(bits & 0xffffffu) * 0x1p-23f;  // in units of pi
  return sqrtf(-2.0f * logf(radius)) * cospif(angle);
}

template <typename T>
__global__ void Fill(T* data, size_t elements, float deviation, uint64_t seed) {
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < elements;
       i += stride) {
    data[i] = static_cast<T>(deviation * Normal(i, seed));
  }
}

template <typename T>
__global__ void Count(const T* data, size_t elements, unsigned long long* count) {
  const size_t stride = static_cast<size_t>(gridDim.x) * blockDim.x;
  unsigned long long mine = 0;
  for (size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x; i < elements;
       i += stride) {
    mine += !isfinite(static_cast<float>(data[i]));
  }
  if (mine > 0) atomicAdd(count, mine);
}

// Calls `function` with a pointer of the right type.
template <typename Function>
void WithType(GpuType type, const Function& function) {
  switch (type) {
    case GpuType::kFloat:
      return function(static_cast<float*>(nullptr));
    case GpuType::kBfloat16:
      return function(static_cast<__nv_bfloat16*>(nullptr));
    case GpuType::kHalf:
      return function(static_cast<__half*>(nullptr));
  }
}

}  // namespace

size_t BytesOf(GpuType type) {
  return type == GpuType::kFloat ? 4 : 2;
}

cudaError_t FillNormal(void* data, size_t elements, GpuType type, float deviation, uint64_t seed,
                       cudaStream_t stream) {
  WithType(type, [&](auto* typed) {
    using T = std::remove_pointer_t<decltype(typed)>;
    Fill<<<kBlocks, kThreads, 0, stream>>>(static_cast<T*>(data), elements, deviation, seed);
  });
  return cudaGetLastError();
}

cudaError_t CountNotFinite(const void* data, size_t elements, GpuType type,
                           unsigned long long* count, cudaStream_t stream) {
  WithType(type, [&](auto* typed) {
    using T = std::remove_pointer_t<decltype(typed)>;
    Count<<<kBlocks, kThreads, 0, stream>>>(static_cast<const T*>(data), elements, count);
  });
  return cudaGetLastError();
}

}  // namespace turbolstm::bench
