// The text of what the blocks of a phased loop do, in terms of the constants that the emitter
// writes in front of it.
#pragma once

#include <string_view>

namespace turbolstm::cuda {

constexpr std::string_view kPhasedText = R"text(
constexpr int kBytes = sizeof(Product::Bits);
constexpr int kElements = 16 / kBytes;

// A product of kParts values of each unit, with kGates results.
template <int kGates, int kParts>
struct ProductShape {
  static constexpr int kAllParts = kParts;
  static constexpr int kWidth = kUnits * kGates;
  static constexpr int kInner = kParts * kPaddedUnits;
  static constexpr int kBlocks = (kInner * kBytes + 63) / 64;  // of 64 bytes
  static constexpr int kColumnTiles = kWidth / 8;
  static constexpr int kWarpBlocks = (kBlocks + kWarps - 1) / kWarps;
  static constexpr int kSlotBytes = kBlocks * kTileRows * 64;
  static constexpr int kWeightChunks = kBlocks * kColumnTiles * 32;
};

// An element of a tile, and what it is for the network.
struct Place {
  int row, unit;  // within the block
  unsigned b;     // sequence
  int j;
  int length;
  bool there;  // not behind the last unit or sequence
  bool valid;  // nor padding
};

__device__ __forceinline__ Place PlaceOf(int first_row, int first_unit, int t, int steps,
                                         int batch, const int* lengths) {
  Place at;
  at.row = threadIdx.x / kUnits;
  at.unit = threadIdx.x % kUnits;
  at.b = first_row + at.row;
  at.j = first_unit + at.unit;
  at.there = at.b < batch && at.j < kAllUnits;
  at.length = lengths && at.there ? lengths[at.b] : steps;
  at.valid = at.there && t < at.length;
  return at;
}

// The 16 bytes of weights with which a lane multiplies: of a tile of 8 columns, in a block along
// the inner axis.
template <typename Shape>
__device__ __forceinline__ uint4 Weights(const PhasedWeights& weights, int first_unit, int block,
                                         int column_tile) {
  const int lane = threadIdx.x % 32;
  const int column = column_tile * 8 + lane / 4;
  const int unit = first_unit + column % kUnits;
  const int inner = (block * 4 + lane % 4) * kElements;
  const int unit_of_x = inner % kPaddedUnits;
  union {
    uint4 all;
    Product::Bits elements[kElements];
  } bits;
  bits.all = make_uint4(0, 0, 0, 0);
  if (unit >= kAllUnits || inner >= Shape::kInner) return bits.all;
  const Product::Bits* const from =
      reinterpret_cast<const Product::Bits*>(weights.weight) +
      (static_cast<long long>(column / kUnits) * kAllUnits + unit) * weights.row_stride +
      (static_cast<long long>(inner / kPaddedUnits) * kAllUnits + unit_of_x) *
          weights.inner_stride;
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    if (unit_of_x + e < kAllUnits) bits.elements[e] = from[e * weights.inner_stride];
  }
  return make_uint4(Product::Operand(bits.all.x), Product::Operand(bits.all.y),
                    Product::Operand(bits.all.z), Product::Operand(bits.all.w));
}

template <typename Shape>
__device__ __forceinline__ void LoadWeights(const PhasedWeights& weights, int first_unit,
                                            uint4* shared) {
  for (int i = threadIdx.x / 32; i < Shape::kBlocks * Shape::kColumnTiles; i += kWarps) {
    shared[i * 32 + threadIdx.x % 32] = Weights<Shape>(
        weights, first_unit, i / Shape::kColumnTiles, i % Shape::kColumnTiles);
  }
}

// Waits, but not for ever: a partner that is lost ends in an error.
struct Patience {
  int* fault;
  bool lost;
  unsigned polls;

  __device__ __forceinline__ bool IsOver(bool present) {
    constexpr unsigned kMostPolls = 1u << 22;  // seconds
    if (__all_sync(0xffffffffu, present) || lost) return true;
    if (++polls >= kMostPolls) {
      lost = true;
      if (threadIdx.x % 32 == 0) atomicCAS(fault, 0, -1);
    }
    return false;
  }
};

// Where a chunk of a row lies in a slot: so that a warp's loads are of whole lines.
__device__ __forceinline__ int ChunkOffset(int row, int chunk) {
  return (chunk / 4 * kTileRows + row) * 64 + chunk % 4 * 16;
}

// Hands a part of x to all blocks of the group.
__device__ __forceinline__ void HandOver(char* slot, const Place& at, int part, float value) {
  const Product::Bits bits = Product::Narrow(at.valid ? value : 0.0f);
  const uint4 chunk = GatherChunk<1>(&bits);
  if (at.unit % kElements == 0) {
    StoreChunk(slot + ChunkOffset(at.row, (part * kPaddedUnits + at.j) / kElements), chunk);
  }
}

// This warp's share of the product of a tile, as sums[warp][row][column].
template <typename Shape>
__device__ __forceinline__ void Multiply(const char* slot, const uint4* weights, float* sums,
                                         Patience* patience) {
  constexpr int kAtOnce = Shape::kWarpBlocks < 4 ? Shape::kWarpBlocks : 4;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const char* const from = slot + warp * kTileRows * 64 + lane * 16;
  float c[2][Shape::kColumnTiles][4] = {};
#pragma unroll 2
  for (int first = 0; first < Shape::kWarpBlocks; first += kAtOnce) {
    uint4 above[kAtOnce], below[kAtOnce];
    patience->polls = 0;
    while (true) {
      unsigned most = 0;
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        above[k] = below[k] = make_uint4(0, 0, 0, 0);
        const int block = (first + k) * kWarps + warp;
        if ((block * 4 + lane % 4) * kElements >= Shape::kInner) continue;
        above[k] = LoadChunk(from + (first + k) * kWarps * kTileRows * 64);
        below[k] = LoadChunk(from + (first + k) * kWarps * kTileRows * 64 + 8 * 64);
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) most = max(most, max(above[k].x, below[k].x));
      if (patience->IsOver(most != kAbsent)) break;
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int block = (first + k) * kWarps + warp;
      if (block >= Shape::kBlocks) continue;
#pragma unroll
      for (int n = 0; n < Shape::kColumnTiles; ++n) {
        AddProducts<Product>(c[0][n], c[1][n], above[k], below[k],
                             weights[(block * Shape::kColumnTiles + n) * 32 + lane]);
      }
    }
  }
  float* const mine = sums + (warp * kTileRows + lane / 4) * kSumStride + lane % 4 * 2;
#pragma unroll
  for (int n = 0; n < Shape::kColumnTiles; ++n) {
    *reinterpret_cast<float2*>(mine + n * 8) =
        make_float2(c[0][n][0] + c[1][n][0], c[0][n][1] + c[1][n][1]);
    *reinterpret_cast<float2*>(mine + n * 8 + 8 * kSumStride) =
        make_float2(c[0][n][2] + c[1][n][2], c[0][n][3] + c[1][n][3]);
  }
}

__device__ __forceinline__ float SumOf(const float* sums, const Place& at, int gate) {
  float sum = 0.0f;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    sum += sums[(w * kTileRows + at.row) * kSumStride + gate * kUnits + at.unit];
  }
  return sum;
}

// The sum over the units that a row has in this warp's lanes: the same bits in all of them.
__device__ __forceinline__ float SumOverUnits(float x) {
#pragma unroll
  for (int lanes = kUnits / 2; lanes > 0; lanes /= 2) x += __shfl_xor_sync(0xffffffffu, x, lanes);
  return x;
}

// Hands this block's part of a row's sum to all blocks of the group.
__device__ __forceinline__ void HandOverSum(char* slot, const Place& at, int part, float x) {
  const float sum = SumOverUnits(at.valid ? x : 0.0f);
  const unsigned bits = min(__float_as_uint(sum), kAbsent - 1);
  if (at.unit == 0) {
    StoreChunk(slot + (at.row * kParts + part) * 16, make_uint4(bits, bits, bits, bits));
  }
}

// The sum of all blocks' parts, in the same order everywhere.
__device__ __forceinline__ float AwaitSum(const char* slot, const Place& at, Patience* patience) {
  constexpr int kEach = (kParts + kUnits - 1) / kUnits;
  float parts[kEach];
  patience->polls = 0;
  while (true) {
    unsigned most = 0;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      unsigned bits = 0;
      const int part = at.unit + k * kUnits;
      if (part < kParts) bits = LoadChunk(slot + (at.row * kParts + part) * 16).x;
      parts[k] = __uint_as_float(bits);
      most = max(most, bits);
    }
    if (patience->IsOver(most != kAbsent)) break;
  }
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kEach; ++k) sum += parts[k];
  return SumOverUnits(sum);
}

// By one warp: nothing of this block's part is there any more.
template <typename Shape>
__device__ __forceinline__ void ClearX(char* slot, int first_unit) {
  constexpr int kChunks = kUnits / kElements;  // of a row and part, side by side
  for (int i = threadIdx.x % 32; i < Shape::kAllParts * kChunks * kTileRows; i += 32) {
    const int piece = i / kTileRows;
    const int chunk =
        (piece / kChunks * kPaddedUnits + first_unit) / kElements + piece % kChunks;
    StoreChunk(slot + ChunkOffset(i % kTileRows, chunk),
               make_uint4(kAbsent, kAbsent, kAbsent, kAbsent));
  }
}

__device__ __forceinline__ void ClearSum(char* slot, int part) {
  const int row = threadIdx.x % 32;
  if (row < kTileRows) {
    StoreChunk(slot + (row * kParts + part) * 16, make_uint4(kAbsent, kAbsent, kAbsent, kAbsent));
  }
}
)text";

// The kernel; what stands between @ depends on the loop.
constexpr std::string_view kPhasedKernelText = R"text(
extern "C" __global__ void __launch_bounds__(kAllThreads, 1)
    loop(const __grid_constant__ Args args) {
  extern __shared__ uint4 shared[];
  float* const all_sums = reinterpret_cast<float*>(shared + kWeightChunks);
  const PhasedHead& head = args.head;
  const int steps = static_cast<int>(head.general.range.steps);
  const int batch = static_cast<int>(head.general.sequences.batch);
  const int* const lengths = head.general.range.padded ? head.general.sequences.lengths : nullptr;
  const unsigned char* const resets = head.general.sequences.resets;
  const int group = blockIdx.x / kParts;
  const int part = blockIdx.x % kParts;
  const int first_unit = part * kUnits;
  const int first_row = (static_cast<int>(head.first_tile) + group * kTiles) * kTileRows;
  char* const exchange = head.exchange + static_cast<long long>(group) * kGroupBytes;
  const bool multiplies = threadIdx.x < 32 * kWarps;
  const bool has_element = threadIdx.x < kTileRows * kUnits;
  Patience patience{head.fault, false, 0};
  if (multiplies) {
@weights@  }
@once@  __syncthreads();
  for (int s = 0; s < steps; ++s) {
    const int t = head.general.reverse ? steps - 1 - s : s;
    const int now = s % kSlots;
    Place places[kTiles];
@values@    if (has_element) {
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        places[i] = PlaceOf(first_row + i * kTileRows, first_unit, t, steps, batch, lengths);
        const Place& at = places[i];
@loads@      }
    }
@phases@    if (has_element) {
#pragma unroll
      for (int i = 0; i < kTiles; ++i) {
        const Place& at = places[i];
@end@      }
    }
  }
}

}  // namespace turbolstm::cuda
)text";

}  // namespace turbolstm::cuda
