// The text of what the blocks of a persistent loop do, in terms of the constants that the emitter
// writes in front of it.
#pragma once

#include <string_view>

namespace turbolstm::cuda {

constexpr std::string_view kBlockText = R"text(
// The 16 bytes of weights with which a lane multiplies: of a tile of 8 columns, in a block along
// the inner axis. Columns are those of the blocks that share them, one after the other.
__device__ __forceinline__ uint4 Weights(const LoopHead& head, int shared_unit, int block,
                                         int column_tile) {
  const int lane = threadIdx.x % 32;
  const int column = column_tile * 8 + lane / 4;
  const int unit = shared_unit + column / (kUnits * kGates) * kUnits + column % kUnits;
  const int inner = (block * 4 + lane % 4) * kElements;
  const auto part = [&](int e) { return kInterleaved ? e % kPartsOfX : inner / kPaddedUnits; };
  const auto unit_of_x = [&](int e) {
    return kInterleaved ? inner / kPartsOfX + e / kPartsOfX : inner % kPaddedUnits + e;
  };
  union {
    uint4 all;
    Product::Bits elements[kElements];
  } bits;
  bits.all = make_uint4(0, 0, 0, 0);
  if (column >= kWidth || unit >= kAllUnits || inner >= kInner) return bits.all;
  const long long row = (kColumns[column / kUnits % kGates] + unit) * head.row_stride;
  const auto at = [&](int e) {
    return reinterpret_cast<const Product::Bits*>(head.weight) + row +
           (kColumnsOfX[part(e)] + unit_of_x(e)) * head.inner_stride;
  };
  const bool contiguous = (!kInterleaved || kPartsOfX == 1) && head.inner_stride == 1;
  if (contiguous && reinterpret_cast<unsigned long long>(at(0)) % 16 == 0 &&
      unit_of_x(kElements - 1) < kAllUnits) {
    bits.all = *reinterpret_cast<const uint4*>(at(0));
  } else {
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      if (unit_of_x(e) < kAllUnits) bits.elements[e] = *at(e);
    }
  }
  return make_uint4(Product::Operand(bits.all.x), Product::Operand(bits.all.y),
                    Product::Operand(bits.all.z), Product::Operand(bits.all.w));
}

// Where a chunk of a row lies in a slot: so that a warp's loads are of whole lines.
__device__ __forceinline__ int ChunkOffset(int row, int chunk) {
  return (chunk / 4 * kTileRows + row) * 64 + chunk % 4 * 16;
}

// What a warp multiplies with, and how it waits.
struct Multiplier {
  uint4 held[kHeld == 0 ? 1 : kHeld];  // the first of its pieces of the weights
  const uint4* loose;                  // the others, in shared memory
  int inner_warp, column_warp, lane;
  uint4 above[kTurnTiles][kAtOnce];  // of x, by tile: rows of the upper half, and of the lower
  uint4 below[kTurnTiles][kAtOnce];
  int* fault;
  bool lost;
  bool asked;  // for the first blocks of x
  int first_block;  // of x

  __device__ __forceinline__ void Load(const LoopHead& head, int shared_unit, int split,
                                       uint4* shared) {
    first_block = split * kBlocks;
    inner_warp = threadIdx.x / 32 % kInnerWarps;
    column_warp = threadIdx.x / 32 / kInnerWarps;
    lane = threadIdx.x % 32;
    loose = shared + threadIdx.x / 32 * kLoose * 32 + lane;
    fault = head.fault;
    lost = asked = false;
#pragma unroll
    for (int i = 0; i < kHeld; ++i) held[i] = Piece(head, shared_unit, i);
#pragma unroll 4
    for (int i = 0; i < kLoose; ++i) {
      shared[(threadIdx.x / 32 * kLoose + i) * 32 + lane] = Piece(head, shared_unit, kHeld + i);
    }
  }

  // Of its k-th block and n-th tile of columns: number k * kWarpTiles + n.
  __device__ __forceinline__ uint4 Piece(const LoopHead& head, int shared_unit, int number) const {
    const int block = number / kWarpTiles * kInnerWarps + inner_warp;
    if (block >= kBlocks) return make_uint4(0, 0, 0, 0);
    return Weights(head, shared_unit, first_block + block,
                   number % kWarpTiles * kColumnWarps + column_warp);
  }

  // Both are known when this is compiled.
  __device__ __forceinline__ uint4 WeightsOf(int k, int n) const {
    const int number = k * kWarpTiles + n;
    if (number < kHeld) return held[number < kHeld ? number : 0];
    return loose[(number - kHeld) * 32];
  }

  // The k-th block of this warp exists, its chunk of this lane does.
  __device__ __forceinline__ bool Has(int k) const {
    const int block = k * kInnerWarps + inner_warp;
    if (k >= kWarpBlocks || (kBlocks % kInnerWarps != 0 && block >= kBlocks)) return false;
    constexpr bool kWhole = kInner == kSplits * kBlocks * 4 * kElements;
    return kWhole || ((first_block + block) * 4 + lane % 4) * kElements < kInner;
  }

  // This warp's k-th block of x of all tiles is on the way to registers, or found absent.
  __device__ __forceinline__ void Ask(const char* slot, int k) {
    const char* const at =
        slot + (first_block + k * kInnerWarps + inner_warp) * kTileRows * 64 + lane * 16;
    constexpr int kHalf = kTileRows / 2;
#pragma unroll
    for (int j = 0; j < kTurnTiles; ++j) {
      uint4& upper = above[j][k % kAtOnce];
      uint4& lower = below[j][k % kAtOnce];
      upper = lower = make_uint4(0, 0, 0, 0);
      if (!Has(k)) continue;
      const char* const place = at + j * kStepSlots * kSlotBytes;
      if (kRowsThere >= kHalf || lane / 4 < kRowsThere) upper = LoadChunk(place);
      if (kRowsThere > kHalf && (kRowsThere == kTileRows || kHalf + lane / 4 < kRowsThere)) {
        lower = LoadChunk(place + kHalf * 64);
      }
    }
  }

  __device__ __forceinline__ void AskForFirst(const char* slot) {
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) Ask(slot, k);
  }

  // Waits for the kAtOnce blocks of x that were asked for, from one on, but not for ever: a partner
  // that is lost ends in an error.
  __device__ __forceinline__ void Await(const char* slot, int first) {
    constexpr unsigned kMostPolls = 1u << 22;  // seconds
    for (unsigned polls = 0;; ++polls) {
      unsigned most = 0;
#pragma unroll
      for (int j = 0; j < kTurnTiles; ++j) {
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) most = max(most, max(above[j][k].x, below[j][k].x));
      }
      if (__all_sync(0xffffffffu, most != kAbsent) || lost) return;
      if (polls == kMostPolls) {
        lost = true;
        if (lane == 0) atomicCAS(fault, 0, -1);
      }
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) Ask(slot, first + k);
    }
  }

  // This warp's part of the sums of 16 rows of each tile. `next`: the slot of the next turn, which is
  // asked for x as soon as there is room for it.
  __device__ __forceinline__ void Run(const char* slot, const char* next, float* sums) {
    float c[kTurnTiles][kChains][kWarpTiles][4] = {};
    if (!asked) AskForFirst(slot);
    asked = kAhead;
#pragma unroll
    for (int first = 0; first < kWarpBlocks; first += kAtOnce) {
      Await(slot, first);
#pragma unroll
      for (int k = first; k < first + kAtOnce; ++k) {
        Multiply(k, &c);
        if (first + kAtOnce < kWarpBlocks) {
          Ask(slot, k + kAtOnce);
        } else if (kAhead) {
          Ask(next, k - first);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < kTurnTiles; ++j) Store(c[j], sums + j * kSumFloats);
  }

  __device__ __forceinline__ void Multiply(int k,
                                           float (*c)[kTurnTiles][kChains][kWarpTiles][4]) const {
    if (k >= kWarpBlocks) return;
    if (kBlocks % kInnerWarps != 0 && k * kInnerWarps + inner_warp >= kBlocks) return;
#pragma unroll
    for (int n = 0; n < kWarpTiles; ++n) {
      if (kColumnTiles % kColumnWarps != 0 && n * kColumnWarps + column_warp >= kColumnTiles) {
        continue;
      }
      const uint4 weight = WeightsOf(k, n);
#pragma unroll
      for (int j = 0; j < kTurnTiles; ++j) {
        AddProducts<Product>((*c)[j][2 * k % kChains][n], (*c)[j][(2 * k + 1) % kChains][n],
                             above[j][k % kAtOnce], below[j][k % kAtOnce], weight);
      }
    }
  }

  __device__ __forceinline__ void Store(float (&c)[kChains][kWarpTiles][4], float* sums) const {
    float* const mine = sums + (inner_warp * kTileRows + lane / 4) * kSumStride + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < kWarpTiles; ++n) {
      const int tile = n * kColumnWarps + column_warp;
      if (kColumnTiles % kColumnWarps != 0 && tile >= kColumnTiles) continue;
#pragma unroll
      for (int chain = 1; chain < kChains; ++chain) {
#pragma unroll
        for (int i = 0; i < 4; ++i) c[0][n][i] += c[chain][n][i];
      }
      float* const to = mine + tile * 8;
      *reinterpret_cast<float2*>(to) = make_float2(c[0][n][0], c[0][n][1]);
      *reinterpret_cast<float2*>(to + 8 * kSumStride) = make_float2(c[0][n][2], c[0][n][3]);
    }
  }
};

__device__ __forceinline__ float SumOf(const float* sums, int row, int column) {
  float sum = 0.0f;
#pragma unroll
  for (int w = 0; w < kInnerWarps; ++w) {
    sum += sums[(w * kTileRows + row) * kSumStride + column];
  }
  return sum;
}

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
  const int thread = threadIdx.x - kFirstFinisher;
  const int warp = thread / 32;
  const int lane = thread % 32;
  // Of 16 units, a warp has rows whose partial sums lie in different banks.
  at.row = kUnits == 16 ? warp / 2 * 4 + warp % 2 + lane / 16 * 2 : thread / kUnits;
  at.unit = thread % kUnits;
  at.b = first_row + at.row;
  at.j = first_unit + at.unit;
  at.there = at.row < kTileRows && at.b < batch && at.j < kAllUnits;
  at.length = lengths && at.there ? lengths[at.b] : steps;
  at.valid = at.there && t < at.length;
  return at;
}

// What is handed over of a part of x: `value`, or what the reader finds where it begins anew: zeros
// (kFromZeros) or the initial value (another but 0).
template <int kPart>
__device__ __forceinline__ Product::Bits Handed(const LoopHead& head, const Place& at, float value,
                                                int anew) {
  const Product::Bits bits = Product::Narrow(value);
  if (!kHasInit) return anew ? 0 : bits;
  if (anew == 0) return bits;
  if (anew == kFromZeros || !head.x.init || !at.there) return 0;
  const char* const row = head.x.init + at.b * head.x.init_row_bytes;
  return Product::Operand(
      reinterpret_cast<const Product::Bits*>(row)[kColumnsOfX[kPart] + at.j]);
}

__device__ __forceinline__ int ColumnOf(int part, int j) {
  return kInterleaved ? j * kPartsOfX + part : part * kPaddedUnits + j;
}

// Hands x of a unit to all blocks of the group.
__device__ __forceinline__ void HandOver(char* slot, const Place& at,
                                         const Product::Bits (&parts)[kPartsOfX]) {
  constexpr int kTogether = kInterleaved ? kPartsOfX : 1;
  constexpr int kLanes = kElements / kTogether;  // that share a chunk
#pragma unroll
  for (int part = 0; part < kPartsOfX; part += kTogether) {
    const uint4 chunk = GatherChunk<kTogether>(&parts[part]);
    if (at.row < kRowsThere && at.unit % kLanes == 0) {
      StoreChunk(slot + ChunkOffset(at.row, ColumnOf(part, at.j) / kElements), chunk);
    }
  }
}

// By one warp: nothing of this block's part of x is there any more.
__device__ __forceinline__ void Clear(char* slot, int first_unit) {
  constexpr int kTogether = kInterleaved ? kPartsOfX : 1;
  constexpr int kChunks = kUnits * kTogether / kElements;  // of a row, side by side
  for (int i = threadIdx.x % 32; i < kPartsOfX / kTogether * kChunks * kRowsThere; i += 32) {
    const int piece = i / kRowsThere;
    const int chunk = ColumnOf(piece / kChunks, first_unit) / kElements + piece % kChunks;
    StoreChunk(slot + ChunkOffset(i % kRowsThere, chunk),
               make_uint4(kAbsent, kAbsent, kAbsent, kAbsent));
  }
}

// Sixteen bytes of a row's share of this block, from `unit` on, to shared memory; zeros where there
// is no row.
template <int kSize>
__device__ __forceinline__ void Fetch(char* to, const char* row, int unit) {
  constexpr bool kWhole = kAllUnits % kUnits == 0;
  const int units = kWhole ? 16 : max(0, min(16, (kAllUnits - unit) * kSize));
  const int bytes = row ? units : 0;
  const char* const from = row + unit * kSize;
  const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if (kAlignment == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(place), "l"(from), "r"(bytes)
                 : "memory");
    return;
  }
  if (kAlignment >= 4) {
#pragma unroll
    for (int k = 0; k < 16; k += kAlignment) {
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                   :
                   : "r"(place + k), "l"(from + k), "n"(kAlignment < 4 ? 4 : kAlignment),
                     "r"(max(0, min(kAlignment, bytes - k)))
                   : "memory");
    }
    return;
  }
  for (int k = 0; k < 16; k += kSize) {
    if (kSize == 2) {
      *reinterpret_cast<unsigned short*>(to + k) =
          k < bytes ? *reinterpret_cast<const unsigned short*>(from + k) : 0;
    } else {
      *reinterpret_cast<unsigned*>(to + k) =
          k < bytes ? *reinterpret_cast<const unsigned*>(from + k) : 0;
    }
  }
}

// The way back, of units that there are.
template <int kSize>
__device__ __forceinline__ void Put(char* row, const uint4& chunk, int unit) {
  constexpr bool kWhole = kAllUnits % kUnits == 0;
  char* const to = row + unit * kSize;
  const unsigned words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
  if (kAlignment >= 4 && (kWhole || unit + 16 / kSize <= kAllUnits)) {
    if (kAlignment == 16) {
      *reinterpret_cast<uint4*>(to) = chunk;
    } else if (kAlignment == 8) {
      reinterpret_cast<uint2*>(to)[0] = make_uint2(chunk.x, chunk.y);
      reinterpret_cast<uint2*>(to)[1] = make_uint2(chunk.z, chunk.w);
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) reinterpret_cast<unsigned*>(to)[k] = words[k];
    }
    return;
  }
#pragma unroll
  for (int k = 0; k < 16; k += kSize) {
    if (unit + k / kSize >= kAllUnits) continue;
    if (kSize == 2) {
      *reinterpret_cast<unsigned short*>(to + k) =
          static_cast<unsigned short>(words[k / 4] >> k % 4 * 8);
    } else {
      *reinterpret_cast<unsigned*>(to + k) = words[k / 4];
    }
  }
}

// An element in shared memory, of type Type.
template <typename Type>
__device__ __forceinline__ float Staged(const char* stage, int element) {
  return Type::Widen(reinterpret_cast<const typename Type::Bits*>(stage)[element]);
}
template <typename Type>
__device__ __forceinline__ void Stage(char* stage, int element, float value) {
  using Bits = typename Type::Bits;
  reinterpret_cast<Bits*>(stage)[element] = static_cast<Bits>(Type::Narrow(value));
}
)text";

}  // namespace turbolstm::cuda
