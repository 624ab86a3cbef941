// The text of how blocks of a persistent loop that form a cluster hand values to each other: into
// each other's shared memory, where barriers count the bytes that come. Needs sm_90.
#pragma once

#include <string_view>

namespace turbolstm::cuda {

constexpr std::string_view kClusterText = R"text(
__device__ __forceinline__ unsigned SharedPlace(const void* place) {
  return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

// The same place in another block of the cluster.
__device__ __forceinline__ unsigned PlaceInPeer(unsigned place, int peer) {
  unsigned there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(place), "r"(peer));
  return there;
}

// Sixteen bytes to another block, which its barrier counts.
__device__ __forceinline__ void Send(unsigned place, const uint4& x, unsigned barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, "
      "[%5];"
      :
      : "r"(place), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(barrier)
      : "memory");
}

__device__ __forceinline__ void InitBarrier(unsigned barrier) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(barrier) : "memory");
}

// The barrier's phase ends when so many bytes have come.
__device__ __forceinline__ void Expect(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :
               : "r"(barrier), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ bool HasEnded(unsigned barrier, int parity) {
  unsigned ended;
  asm volatile(
      "{\n"
      ".reg .pred ended;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
      "selp.u32 %0, 1, 0, ended;\n"
      "}\n"
      : "=r"(ended)
      : "r"(barrier), "r"(parity)
      : "memory");
  return ended;
}

__device__ __forceinline__ void SyncCluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;"
               :
               :
               : "memory");
}

// kCount elements of each of neighbouring lanes, as a chunk that each of them gets.
template <int kCount>
__device__ __forceinline__ uint4 ShareChunk(const Product::Bits* x) {
  constexpr unsigned kAll = 0xffffffffu;
  constexpr int kWords = kCount * kBytes < 4 ? 1 : kCount * kBytes / 4;  // of a lane, or of two
  constexpr int kLanes = kElements / kCount;
  unsigned words[kWords];
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    if (kBytes == 4) {
      words[w] = x[w];
    } else if (kCount == 1) {
      words[w] = x[0] | __shfl_down_sync(kAll, static_cast<unsigned>(x[0]), 1) << 16;
    } else {
      words[w] = x[2 * w] | static_cast<unsigned>(x[(2 * w + 1) % kCount]) << 16;
    }
  }
  const int first = threadIdx.x % 32 / kLanes * kLanes;
  unsigned chunk[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    chunk[i] = __shfl_sync(kAll, words[i % kWords], first + i * kLanes / 4);
  }
  return make_uint4(chunk[0], chunk[1], chunk[2], chunk[3]);
}

// Sixteen bytes of weights of a column of the product, from an element of x on: of kXUnits units of
// x, from first_unit_of_x on.
__device__ __forceinline__ uint4 ColumnWeights(const LoopHead& head, int product, int unit,
                                               int first_unit_of_x, int inner) {
  union {
    uint4 all;
    Product::Bits elements[kElements];
  } bits;
  bits.all = make_uint4(0, 0, 0, 0);
  if (product >= kGates || unit >= kAllUnits || inner >= kXInner) return bits.all;
  const long long row = (kColumns[product] + unit) * head.row_stride;
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    const int part = kInterleaved ? e % kPartsOfX : inner / kXUnits;
    const int unit_of_x = first_unit_of_x + (kInterleaved ? inner / kPartsOfX + e / kPartsOfX
                                                          : inner % kXUnits + e);
    if (unit_of_x >= kAllUnits) continue;
    bits.elements[e] = reinterpret_cast<const Product::Bits*>(
        head.weight)[row + (kColumnsOfX[part] + unit_of_x) * head.inner_stride];
  }
  return make_uint4(Product::Operand(bits.all.x), Product::Operand(bits.all.y),
                    Product::Operand(bits.all.z), Product::Operand(bits.all.w));
}

// What arrives at a block: for each tile two slots in turn, with a barrier each. What is sent as
// the n-th lies in slot n % 2. Nobody sends the (n + 2)-th before it has all of the (n + 1)-th,
// which a block sends only after it has used the n-th.
struct Inbox {
  char* slots;
  char* kept;  // in memory: what has arrived last when a loop runs in blocks of steps
  unsigned barriers;
  int* fault;
  int tiles, first_row, batch;
  bool resumes;  // the 0-th is what was kept
  bool lost;

  __device__ __forceinline__ Inbox(const LoopHead& head, char* place, int first_tile)
      : slots(place),
        kept(head.exchange + static_cast<long long>(blockIdx.x) * head.tiles * kInboxBytes),
        barriers(SharedPlace(place + head.tiles * 2 * kInboxBytes)),
        fault(head.fault),
        tiles(static_cast<int>(head.tiles)),
        first_row(first_tile * kTileRows),
        batch(static_cast<int>(head.general.sequences.batch)),
        resumes(head.begin > 0),
        lost(false) {}

  __device__ __forceinline__ char* Slot(int n, int tile) const {
    return slots + (tile * 2 + n % 2) * kInboxBytes;
  }
  __device__ __forceinline__ unsigned Barrier(int n, int tile) const {
    return barriers + (tile * 2 + n % 2) * 8;
  }
  __device__ __forceinline__ int Rows(int tile) const {
    return max(0, min(kTileRows, batch - first_row - tile * kTileRows));
  }
  __device__ __forceinline__ void ExpectNext(int n, int tile) const {
    Expect(Barrier(n, tile), Rows(tile) * kArrivingBytes);
  }
  __device__ __forceinline__ uint4* Chunk(char* place, int i) const {
    return reinterpret_cast<uint4*>(place) + i;
  }
  __device__ __forceinline__ void Begin() {
    constexpr int kChunks = kInboxBytes / 16;
    for (int i = threadIdx.x; i < tiles * 2 * kChunks; i += kAllThreads) {
      const bool given = resumes && i / kChunks % 2 == 0;
      *Chunk(slots, i) = given ? *Chunk(kept, i / kChunks / 2 * kChunks + i % kChunks)
                               : make_uint4(0, 0, 0, 0);
    }
    if (threadIdx.x == 0) {
      for (int i = 0; i < 2 * tiles; ++i) InitBarrier(barriers + i * 8);
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      for (int tile = 0; tile < tiles; ++tile) {
        if (resumes) {
          Expect(Barrier(0, tile), 0);
        } else {
          ExpectNext(0, tile);
        }
        ExpectNext(1, tile);
      }
    }
    __syncthreads();
    SyncCluster();
  }
  // Keeps the n-th, of all tiles, for the steps that run later.
  __device__ __forceinline__ void Keep(int n) {
    constexpr int kChunks = kInboxBytes / 16;
    for (int tile = 0; tile < tiles; ++tile) {
      if (threadIdx.x < kLoopThreads) Await(n, tile);
      __syncthreads();
      for (int i = threadIdx.x; i < kChunks; i += kAllThreads) {
        *Chunk(kept, tile * kChunks + i) = *Chunk(Slot(n, tile), i);
      }
    }
  }
  // Until the n-th is there, but not for ever: a partner that is lost ends in an error.
  __device__ __forceinline__ void Await(int n, int tile) {
    constexpr unsigned kMostPolls = 1u << 22;
    for (unsigned polls = 0; !lost && !HasEnded(Barrier(n, tile), n / 2 % 2); ++polls) {
      if (polls < kMostPolls) continue;
      lost = true;
      atomicCAS(fault, 0, -1);
    }
    if (threadIdx.x == 0) ExpectNext(n, tile);
  }
};
)text";

// All of x goes to every block, which multiplies it with its columns of the weights.
constexpr std::string_view kGatherText = R"text(
struct Exchange {
  static constexpr int kInnerWarps = kSharingWarps;
  static constexpr int kColumnWarps = kLoopWarps / kInnerWarps;
  static constexpr int kColumnTiles = kWidth / 16;
  static constexpr int kWarpTiles = (kColumnTiles + kColumnWarps - 1) / kColumnWarps;
  static constexpr int kWarpBlocks = (kXBlocks + kInnerWarps - 1) / kInnerWarps;
  static constexpr int kSharedBytes = kInnerWarps * kTileRows * kArrivalStride * 4;

  Inbox inbox;
  uint4 held[kWarpBlocks][kWarpTiles][2];
  float* sums;
  int inner_warp, column_warp, lane;

  __device__ __forceinline__ Exchange(const LoopHead& head, uint4* shared, char* arrivals,
                                      int first_tile, int first_unit)
      : inbox(head, arrivals, first_tile), sums(reinterpret_cast<float*>(shared)) {
    inner_warp = threadIdx.x / 32 % kInnerWarps;
    column_warp = threadIdx.x / 32 / kInnerWarps;
    lane = threadIdx.x % 32;
    if (threadIdx.x >= kLoopThreads) return;
#pragma unroll
    for (int k = 0; k < kWarpBlocks; ++k) {
      const int block = k * kInnerWarps + inner_warp;
      const int inner = block < kXBlocks ? (block * 4 + lane % 4) * kElements : kXInner;
#pragma unroll
      for (int n = 0; n < kWarpTiles; ++n) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int column = (n * kColumnWarps + column_warp) * 16 + half * 8 + lane / 4;
          held[k][n][half] =
              ColumnWeights(head, column / kUnits, first_unit + column % kUnits, 0, inner);
        }
      }
    }
  }
  __device__ __forceinline__ void Begin() { inbox.Begin(); }

  // Sums of products of the n-th x.
  __device__ __forceinline__ void Multiply(int n, int tile) {
    inbox.Await(n, tile);
    const char* const slot = inbox.Slot(n, tile) + lane * 16;
    float c[kTileRows / 8][kWarpTiles][2][4] = {};
#pragma unroll
    for (int k = 0; k < kWarpBlocks; ++k) {
      const int block = k * kInnerWarps + inner_warp;
      if (kXBlocks % kInnerWarps != 0 && block >= kXBlocks) continue;
      uint4 x[kTileRows / 8];
#pragma unroll
      for (int r = 0; r < kTileRows / 8; ++r) {
        x[r] = *reinterpret_cast<const uint4*>(slot + (block * kTileRows + r * 8) * 64);
      }
#pragma unroll
      for (int i = 0; i < kWarpTiles; ++i) {
#pragma unroll
        for (int r = 0; r < kTileRows / 8; ++r) {
          AddProducts<Product>(c[r][i][0], c[r][i][1], held[k][i][0], held[k][i][1], x[r]);
        }
      }
    }
    Store(c);
  }
  __device__ __forceinline__ void Store(const float (&c)[kTileRows / 8][kWarpTiles][2][4]) const {
    float* const mine = sums + (inner_warp * kTileRows + lane % 4 * 2) * kArrivalStride + lane / 4;
#pragma unroll
    for (int n = 0; n < kWarpTiles; ++n) {
      const int tile = n * kColumnWarps + column_warp;
      if (kColumnTiles % kColumnWarps != 0 && tile >= kColumnTiles) continue;
#pragma unroll
      for (int r = 0; r < kTileRows / 8; ++r) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          mine[(r * 8 + i % 2) * kArrivalStride + tile * 16 + i / 2 * 8] =
              c[r][n][0][i] + c[r][n][1][i];
        }
      }
    }
  }
  __device__ __forceinline__ void Await(int, int) {}
  __device__ __forceinline__ float Sum(int, int, int row, int column) const {
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < kInnerWarps; ++w) sum += sums[(w * kTileRows + row) * kArrivalStride + column];
    return sum;
  }
  // The n-th x. Lanes that share a chunk send it to a block each.
  __device__ __forceinline__ void HandOver(int n, int tile, const Place& at,
                                           const Product::Bits (&parts)[kPartsOfX]) const {
    constexpr int kTogether = kInterleaved ? kPartsOfX : 1;
    constexpr int kLanes = kElements / kTogether;
    const unsigned slot = SharedPlace(inbox.Slot(n, tile));
#pragma unroll
    for (int part = 0; part < kPartsOfX; part += kTogether) {
      const uint4 chunk = ShareChunk<kTogether>(&parts[part]);
      if (at.row >= kTileRows || at.b >= inbox.batch) continue;
      const unsigned place = slot + ChunkOffset(at.row, ColumnOf(part, at.j) / kElements);
#pragma unroll
      for (int peer = at.unit % kLanes; peer < kParts; peer += kLanes) {
        Send(PlaceInPeer(place, peer), chunk, PlaceInPeer(inbox.Barrier(n, tile), peer));
      }
    }
  }
  __device__ __forceinline__ void EndTurn(int, int) {}
  __device__ __forceinline__ void Keep(int n) { inbox.Keep(n); }
};
)text";

// A block multiplies its own share of x with all columns of the weights, and sends the sums to
// those who have the columns' units. Of a product as wide as x, fewer bytes than x.
constexpr std::string_view kScatterText = R"text(
struct Exchange {
  static constexpr int kGroups = (kPaddedUnits + 31) / 32;  // of units, the product's columns
  static constexpr int kWarpGroups = (kGroups + kLoopWarps - 1) / kLoopWarps;
  static constexpr int kXBytes = kXBlocks * kTileRows * 64;
  static constexpr int kSharedBytes = 2 * kXBytes;

  Inbox inbox;
  uint4 held[kWarpGroups][kXBlocks][4];
  char* x;  // of this turn and of the one before
  int rank, lane, parity;

  __device__ __forceinline__ Exchange(const LoopHead& head, uint4* shared, char* arrivals,
                                      int first_tile, int first_unit)
      : inbox(head, arrivals, first_tile),
        x(reinterpret_cast<char*>(shared)),
        rank(first_unit / kUnits),
        lane(threadIdx.x % 32),
        parity(0) {
    if (threadIdx.x >= kLoopThreads) return;
#pragma unroll
    for (int p = 0; p < kWarpGroups; ++p) {
#pragma unroll
      for (int k = 0; k < kXBlocks; ++k) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          held[p][k][i] = ColumnWeights(head, 0, FirstUnit(p) + i, first_unit,
                                        (k * 4 + lane % 4) * kElements);
        }
      }
    }
  }
  // The first of four units whose sums a lane has.
  __device__ __forceinline__ int FirstUnit(int p) const {
    return (p * kLoopWarps + static_cast<int>(threadIdx.x) / 32) * 32 + lane / 4 * 4;
  }
  __device__ __forceinline__ void Begin() {
    for (int i = threadIdx.x; i < kSharedBytes / 16; i += kAllThreads) {
      reinterpret_cast<uint4*>(x)[i] = make_uint4(0, 0, 0, 0);
    }
    inbox.Begin();
  }
  __device__ __forceinline__ void Multiply(int, int) {}
  __device__ __forceinline__ void Await(int n, int tile) { inbox.Await(n, tile); }
  __device__ __forceinline__ float Sum(int n, int tile, int row, int column) const {
    const float* const sums = reinterpret_cast<const float*>(inbox.Slot(n, tile));
    float sum = 0.0f;
#pragma unroll
    for (int from = 0; from < kParts; ++from) {
      sum += sums[(from * kTileRows + row) * kArrivalStride + column];
    }
    return sum;
  }
  __device__ __forceinline__ void HandOver(int, int, const Place& at,
                                           const Product::Bits (&parts)[kPartsOfX]) const {
    if (at.row >= kTileRows) return;
#pragma unroll
    for (int part = 0; part < kPartsOfX; ++part) {
      const int inner = kInterleaved ? at.unit * kPartsOfX + part : part * kXUnits + at.unit;
      char* const chunk = x + parity * kXBytes + ChunkOffset(at.row, inner / kElements);
      reinterpret_cast<Product::Bits*>(chunk)[inner % kElements] = parts[part];
    }
  }
  // All of this block's x of the turn is in shared memory; its sums are sent as the n-th.
  __device__ __forceinline__ void EndTurn(int n, int tile) {
    const char* const mine = x + parity * kXBytes + lane * 16;
    parity = 1 - parity;
#pragma unroll
    for (int p = 0; p < kWarpGroups; ++p) {
      float c[kTileRows / 8][2][2][4] = {};
#pragma unroll
      for (int k = 0; k < kXBlocks; ++k) {
#pragma unroll
        for (int r = 0; r < kTileRows / 8; ++r) {
          const uint4 share = *reinterpret_cast<const uint4*>(mine + (k * kTileRows + r * 8) * 64);
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            AddProducts<Product>(c[r][half][0], c[r][half][1], held[p][k][2 * half],
                                 held[p][k][2 * half + 1], share);
          }
        }
      }
      SendSums(n, tile, p, c);
    }
  }
  __device__ __forceinline__ void SendSums(int n, int tile, int p,
                                           const float (&c)[kTileRows / 8][2][2][4]) const {
    const int unit = FirstUnit(p);
    const int owner = unit / kUnits;
    if (owner >= kParts) return;
    const unsigned slot = PlaceInPeer(SharedPlace(inbox.Slot(n, tile)), owner);
    const unsigned barrier = PlaceInPeer(inbox.Barrier(n, tile), owner);
#pragma unroll
    for (int r = 0; r < kTileRows / 8; ++r) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int row = r * 8 + lane % 4 * 2 + i;
        const auto sum = [&](int half, int j) {
          return __float_as_uint(c[r][half][0][j] + c[r][half][1][j]);
        };
        if (row >= inbox.Rows(tile)) continue;
        Send(slot + ((rank * kTileRows + row) * kArrivalStride + unit % kUnits) * 4,
             make_uint4(sum(0, i), sum(0, 2 + i), sum(1, i), sum(1, 2 + i)), barrier);
      }
    }
  }
  __device__ __forceinline__ void Keep(int n) { inbox.Keep(n); }
};
)text";

}  // namespace turbolstm::cuda
