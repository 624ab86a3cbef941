#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "backend/cuda/check_cuda.h"
#include "base/dtype.h"
#include "execution/operators_cuda.h"

// What the kernels of operators_cuda.h share: elements of any type, four at a time where they lie
// evenly, and a kernel that gives every row a few threads.
namespace turbolstm::cuda {

inline constexpr int kBlockThreads = 256;
// More blocks than any device holds at once; kernels loop over what is left.
inline constexpr int64_t kMostBlocks = int64_t{1} << 20;

inline unsigned GridFor(int64_t items, int64_t per_block) {
  return static_cast<unsigned>(std::min(kMostBlocks, (items + per_block - 1) / per_block));
}

// The smallest power of two that is at least x, but at most `most`, itself a power of two.
inline int PowerOfTwoAtLeast(int64_t x, int most) {
  int power = 1;
  while (power < x && power < most) power *= 2;
  return power;
}

// --- Elements. A type is turbolstm::DType; a null row holds zeros.

struct Four {
  float v[4] = {0, 0, 0, 0};
};

__device__ inline int ElementBytes(signed char dtype) {
  const auto type = static_cast<DType>(dtype);
  return type == DType::kBFloat16 || type == DType::kFloat16 ? 2 : 4;
}

__device__ inline float LoadOne(const char* row, signed char dtype, long long i) {
  switch (static_cast<DType>(dtype)) {
    case DType::kBFloat16:
      return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(row)[i]);
    case DType::kFloat16:
      return __half2float(reinterpret_cast<const __half*>(row)[i]);
    case DType::kInt32:
      return static_cast<float>(reinterpret_cast<const int*>(row)[i]);
    default:
      return reinterpret_cast<const float*>(row)[i];
  }
}

__device__ inline void StoreOne(char* row, signed char dtype, long long i, float x) {
  switch (static_cast<DType>(dtype)) {
    case DType::kBFloat16:
      reinterpret_cast<__nv_bfloat16*>(row)[i] = __float2bfloat16_rn(x);
      return;
    case DType::kFloat16:
      reinterpret_cast<__half*>(row)[i] = __float2half_rn(x);
      return;
    case DType::kInt32:
      reinterpret_cast<int*>(row)[i] = __float2int_rz(x);
      return;
    default:
      reinterpret_cast<float*>(row)[i] = x;
  }
}

__device__ inline bool LiesEvenly(const char* at, int bytes) {
  return reinterpret_cast<size_t>(at) % static_cast<size_t>(bytes) == 0;
}

__device__ inline Four FromWords(const float4& x) {
  return {{x.x, x.y, x.z, x.w}};
}

__device__ inline Four FromHalves(const uint2& bits, signed char dtype) {
  float2 low, high;
  if (static_cast<DType>(dtype) == DType::kBFloat16) {
    low = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(bits.x));
    high = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(bits.y));
  } else {
    low = __half22float2(reinterpret_cast<const __half2&>(bits.x));
    high = __half22float2(reinterpret_cast<const __half2&>(bits.y));
  }
  return {{low.x, low.y, high.x, high.y}};
}

// Four elements at an address that is a multiple of their size.
__device__ inline Four LoadEven(const char* at, signed char dtype) {
  const auto type = static_cast<DType>(dtype);
  if (type == DType::kFloat32) return FromWords(*reinterpret_cast<const float4*>(at));
  if (type == DType::kInt32) {
    const int4 x = *reinterpret_cast<const int4*>(at);
    return {{static_cast<float>(x.x), static_cast<float>(x.y), static_cast<float>(x.z),
             static_cast<float>(x.w)}};
  }
  return FromHalves(*reinterpret_cast<const uint2*>(at), dtype);
}

__device__ inline void StoreEven(char* at, signed char dtype, const Four& x) {
  const auto type = static_cast<DType>(dtype);
  if (type == DType::kFloat32) {
    *reinterpret_cast<float4*>(at) = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
    return;
  }
  if (type == DType::kInt32) {
    *reinterpret_cast<int4*>(at) = make_int4(__float2int_rz(x.v[0]), __float2int_rz(x.v[1]),
                                             __float2int_rz(x.v[2]), __float2int_rz(x.v[3]));
    return;
  }
  uint2 bits;
  if (type == DType::kBFloat16) {
    reinterpret_cast<__nv_bfloat162&>(bits.x) = __floats2bfloat162_rn(x.v[0], x.v[1]);
    reinterpret_cast<__nv_bfloat162&>(bits.y) = __floats2bfloat162_rn(x.v[2], x.v[3]);
  } else {
    reinterpret_cast<__half2&>(bits.x) = __floats2half2_rn(x.v[0], x.v[1]);
    reinterpret_cast<__half2&>(bits.y) = __floats2half2_rn(x.v[2], x.v[3]);
  }
  *reinterpret_cast<uint2*>(at) = bits;
}

// Elements i to i + 3 of a row of n; zeros for those outside.
__device__ inline Four LoadFour(const char* row, signed char dtype, long long i, long long n) {
  Four x;
  if (!row) return x;
  const int bytes = ElementBytes(dtype);
  if (i >= 0 && i + 4 <= n && LiesEvenly(row + i * bytes, 4 * bytes)) {
    return LoadEven(row + i * bytes, dtype);
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (i + k >= 0 && i + k < n) x.v[k] = LoadOne(row, dtype, i + k);
  }
  return x;
}

// The same of several rows, so that their loads are on the way together.
template <int kRows>
__device__ void LoadFours(const char* const (&rows)[kRows], signed char dtype, long long i,
                          long long n, Four (&x)[kRows]) {
  const int bytes = ElementBytes(dtype);
  bool even = i + 4 <= n && static_cast<DType>(dtype) != DType::kInt32;
#pragma unroll
  for (int k = 0; k < kRows; ++k) {
    even = even && (!rows[k] || LiesEvenly(rows[k] + i * bytes, 4 * bytes));
  }
  if (!even) {
#pragma unroll
    for (int k = 0; k < kRows; ++k) x[k] = LoadFour(rows[k], dtype, i, n);
  } else if (static_cast<DType>(dtype) == DType::kFloat32) {
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      x[k] = {};
      if (rows[k]) x[k] = FromWords(*reinterpret_cast<const float4*>(rows[k] + i * bytes));
    }
  } else {
    uint2 bits[kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      bits[k] = make_uint2(0, 0);  // zeros of either type
      if (rows[k]) bits[k] = *reinterpret_cast<const uint2*>(rows[k] + i * bytes);
    }
#pragma unroll
    for (int k = 0; k < kRows; ++k) x[k] = FromHalves(bits[k], dtype);
  }
}

__device__ inline void AddTo(Four* sum, const Four& x) {
#pragma unroll
  for (int k = 0; k < 4; ++k) sum->v[k] += x.v[k];
}

__device__ inline void StoreFour(char* row, signed char dtype, long long i, long long n,
                                 const Four& x) {
  const int bytes = ElementBytes(dtype);
  if (i + 4 <= n && LiesEvenly(row + i * bytes, 4 * bytes)) {
    return StoreEven(row + i * bytes, dtype, x);
  }
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (i + k < n) StoreOne(row, dtype, i + k, x.v[k]);
  }
}

// --- Rows.

// A row, and which of the threads that share it this one is.
struct Site {
  long long t = 0;
  long long b = 0;
  long long lane = 0;
  long long lanes = 1;
  bool padding = false;
};

// 64-bit divisions take several times as long.
__device__ inline long long Quotient(long long a, long long b) {
  if (((a | b) >> 32) == 0) return static_cast<unsigned>(a) / static_cast<unsigned>(b);
  return a / b;
}

// Row r of a range in which every step has `batch` rows.
__device__ inline Site SiteOf(long long row, long long batch, const Sequences& sequences,
                              const RowRange& range) {
  Site site;
  const long long step = Quotient(row, batch);
  site.t = range.time_begin + step;
  site.b = row - step * batch;
  site.padding = IsPadding(sequences, range, site.t, site.b);
  return site;
}

// The same for every `stride`-th row, without a division for each.
struct RowCursor {
  Site site;
  long long steps;  // a stride is so many steps and sequences
  long long sequences;

  __device__ RowCursor(long long row, int stride, long long batch, const Sequences& all,
                       const RowRange& range)
      : site(SiteOf(row, batch, all, range)),
        steps(Quotient(stride, batch)),
        sequences(stride - steps * batch) {}

  __device__ void Advance(const Sequences& all, const RowRange& range) {
    site.t += steps;
    site.b += sequences;
    if (site.b >= all.batch) {
      site.b -= all.batch;
      ++site.t;
    }
    site.padding = IsPadding(all, range, site.t, site.b);
  }
};

// The row that an operand reads; null, for zeros, in padding.
__device__ inline const char* ReadRow(const RowOperand& x, const Sequences& sequences,
                                      const Site& site) {
  return site.padding ? nullptr : RowAddress(x, sequences, site.t, site.b);
}

__device__ inline long long NumberOf(const Sequences& sequences, long long b) {
  return sequences.numbers ? sequences.numbers[b] : b;
}

// The index that an operand reads, or -1 in padding and for one outside [0, size), which is
// reported.
__device__ inline long long ReadIndex(const RowOperand& x, const Sequences& sequences,
                                      const Site& site, long long size, int stage,
                                      IndexFault* fault) {
  if (site.padding) return -1;
  const char* row = RowAddress(x, sequences, site.t, site.b);
  const int index = row ? *reinterpret_cast<const int*>(row) : 0;
  if (index >= 0 && index < size) return index;
  if (site.lane == 0 && atomicCAS(&fault->found, 0, 1 + stage) == 0) {
    fault->index = index;
    fault->time = site.t;
    fault->sequence = NumberOf(sequences, site.b);
  }
  return -1;
}

// Writes this thread's part of a row: four(i) gives elements i to i + 3.
template <typename Function>
__device__ void WriteRow(char* row, signed char dtype, long long width, const Site& site,
                         Function four) {
  for (long long i = 4 * site.lane; i < width; i += 4 * site.lanes) {
    StoreFour(row, dtype, i, width, four(i));
  }
}

// Copies whole words of 16 bytes, several at once, and then what is left in pieces, one a thread.
template <typename Piece>
__device__ void CopyBytes(const char* x, char* y, long long bytes, const Site& site) {
  constexpr int kAtOnce = 4;
  const long long words = bytes / 16;
  const auto* from = reinterpret_cast<const uint4*>(x);
  auto* to = reinterpret_cast<uint4*>(y);
  for (long long i = site.lane; i < words; i += kAtOnce * site.lanes) {
    uint4 some[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (i + k * site.lanes < words) some[k] = from[i + k * site.lanes];
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (i + k * site.lanes < words) to[i + k * site.lanes] = some[k];
    }
  }
  const long long left = 16 * words + site.lane * static_cast<long long>(sizeof(Piece));
  if (left < bytes) {
    *reinterpret_cast<Piece*>(y + left) = *reinterpret_cast<const Piece*>(x + left);
  }
}

// Copies `count` elements from `begin` of a row on to the beginning of another.
__device__ inline void CopyRow(const char* x, signed char x_type, long long begin, char* y,
                               signed char y_type, long long count, const Site& site) {
  const int bytes = ElementBytes(x_type);
  constexpr long long kMostPieces = 8;  // in what CopyBytes leaves
  if (x && x_type == y_type && site.lanes >= kMostPieces && LiesEvenly(x + begin * bytes, 16) &&
      LiesEvenly(y, 16)) {
    if (bytes == 2) return CopyBytes<unsigned short>(x + begin * bytes, y, count * bytes, site);
    return CopyBytes<unsigned>(x + begin * bytes, y, count * bytes, site);
  }
  WriteRow(y, y_type, count, site,
           [&](long long i) { return LoadFour(x, x_type, begin + i, begin + count); });
}

template <typename Body>
__global__ void __launch_bounds__(kBlockThreads)
    RowsKernel(Sequences sequences, RowRange range, long long rows, long long batch, Body body) {
  const long long lane = static_cast<long long>(blockIdx.y) * blockDim.x + threadIdx.x;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.y;
  for (long long row = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y; row < rows;
       row += step) {
    Site site = SiteOf(row, batch, sequences, range);
    site.lane = lane;
    site.lanes = static_cast<long long>(gridDim.y) * blockDim.x;
    body(sequences, site);
  }
}

// How many rows an operator walks over, and how many of them are one step's.
struct RowSpace {
  int64_t rows = 0;
  int64_t batch = 0;
};

inline RowSpace SpaceOf(Domain domain, const Sequences& sequences, const RowRange& range) {
  if (domain == Domain::kStatic) return {1, 1};
  return {range.steps * sequences.batch, sequences.batch};
}

// body(sequences, site) on every row, with threads for `width` elements.
template <typename Body>
void ForEachRow(const RowSpace& space, const Sequences& sequences, const RowRange& range,
                int64_t width, const Body& body, cudaStream_t stream) {
  if (space.rows <= 0 || width <= 0) return;
  const int64_t fours = (width + 3) / 4;
  // Many threads hide what a row's address takes to find; of more, each does more of its row.
  constexpr int64_t kEnoughThreads = int64_t{1} << 19;
  constexpr int64_t kFours = 4;
  const bool enough = space.rows >= kEnoughThreads / fours;
  const int lanes =
      PowerOfTwoAtLeast(enough ? (fours + kFours - 1) / kFours : fours, kBlockThreads);
  const int rows_at_once = kBlockThreads / lanes;
  const unsigned blocks = GridFor(space.rows, rows_at_once);
  // Few wide rows are shared by several blocks.
  constexpr int64_t kEnoughBlocks = 1024;
  const int64_t splits =
      std::clamp<int64_t>(kEnoughBlocks / blocks, 1, (fours + kBlockThreads - 1) / kBlockThreads);
  RowsKernel<<<dim3(blocks, static_cast<unsigned>(splits)),
               dim3(static_cast<unsigned>(lanes), static_cast<unsigned>(rows_at_once)), 0,
               stream>>>(sequences, range, space.rows, space.batch, body);
  TL_CUDA_CHECK(cudaGetLastError());
}

// Indices pass unchanged through copies that see them as numbers of the same size.
inline void CopyAsBits(signed char* from, signed char* to) {
  constexpr auto kIndices = static_cast<signed char>(DType::kInt32);
  if (*from != kIndices || *to != kIndices) return;
  *from = *to = static_cast<signed char>(DType::kFloat32);
}

}  // namespace turbolstm::cuda
