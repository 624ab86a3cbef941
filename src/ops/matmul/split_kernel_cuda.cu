// The pieces of fp32 matrices, as SplitFloat makes them on the host.

#include <cuda_bf16.h>

#include <algorithm>

#include "backend/cuda/check_cuda.h"
#include "ops/matmul/split_product_cuda.h"

namespace turbolstm::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kElements = 8;  // of a thread at once: 16 bytes a piece
static_assert(kElements == kSplitAlignment);

struct Source {
  const float* x;
  long long stride;
  long long block_stride;
};

// 64-bit divisions take several times as long.
__device__ long long Quotient(long long a, long long b) {
  if (((a | b) >> 32) == 0) return static_cast<unsigned>(a) / static_cast<unsigned>(b);
  return a / b;
}

__device__ void Load(const float* x, long long left, float (&values)[kElements]) {
  if (left >= kElements && reinterpret_cast<size_t>(x) % 16 == 0) {
    const auto* fours = reinterpret_cast<const float4*>(x);
    const float4 low = fours[0], high = fours[1];
    const float all[kElements] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < kElements; ++i) values[i] = all[i];
    return;
  }
#pragma unroll
  for (int i = 0; i < kElements; ++i) values[i] = i < left ? x[i] : 0.0f;
}

// What the next piece of a value is rounded from.
__device__ float Inside(float x, bool last) {
  if (last) return x;
  return x != x ? 0.0f : fminf(fmaxf(x, -kLargestSplitPiece), kLargestSplitPiece);
}

// Takes the next piece of every value away from it.
__device__ uint4 TakePiece(float (&values)[kElements], bool last) {
  unsigned words[kElements / 2];
#pragma unroll
  for (int i = 0; i < kElements; i += 2) {
    const __nv_bfloat162 pieces =
        __floats2bfloat162_rn(Inside(values[i], last), Inside(values[i + 1], last));
    const float2 numbers = __bfloat1622float2(pieces);
    values[i] -= numbers.x;
    values[i + 1] -= numbers.y;
    words[i / 2] = reinterpret_cast<const unsigned&>(pieces);
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

__global__ void __launch_bounds__(kThreads)
    SplitKernel(SplitMatrix split, Source source, __nv_bfloat16* y) {
  const long long per_row = split.padded_columns / kElements;
  const long long items = split.blocks * split.padded_rows * per_row;
  for (long long item = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x; item < items;
       item += static_cast<long long>(gridDim.x) * kThreads) {
    const long long line = Quotient(item, per_row);
    const long long column = (item - line * per_row) * kElements;
    const long long block = Quotient(line, split.padded_rows);
    const long long row = line - block * split.padded_rows;
    float values[kElements] = {};
    if (row < split.rows) {
      Load(source.x + block * source.block_stride + row * source.stride + column,
           split.columns - column, values);
    }
    __nv_bfloat16* to = y + block * split.block_stride + row * split.stride + column;
#pragma unroll
    for (int piece = 0; piece < kSplitPieces; ++piece) {
      const int place = split.smallest_first ? kSplitPieces - 1 - piece : piece;
      // As one store, which an assignment of the four words is not made.
      __stcg(reinterpret_cast<uint4*>(to + place * split.piece_stride),
             TakePiece(values, piece == kSplitPieces - 1));
    }
  }
}

}  // namespace

void Split(const SplitMatrix& split, const float* x, int64_t x_stride, int64_t x_block_stride,
           void* y, cudaStream_t stream) {
  const int64_t items = split.blocks * split.padded_rows * (split.padded_columns / kElements);
  if (items <= 0) return;
  constexpr int64_t kMostBlocks = int64_t{1} << 20;
  const auto blocks =
      static_cast<unsigned>(std::min(kMostBlocks, (items + kThreads - 1) / kThreads));
  SplitKernel<<<blocks, kThreads, 0, stream>>>(split, {x, x_stride, x_block_stride},
                                               static_cast<__nv_bfloat16*>(y));
  TL_CUDA_CHECK(cudaGetLastError());
}

}  // namespace turbolstm::cuda
