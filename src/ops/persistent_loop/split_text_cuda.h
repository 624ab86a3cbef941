// The text of what blocks do that split the inner axis of a product among them: each multiplies the
// columns of all by its share of x, and hands the sums to those whose columns they are.
#pragma once

#include <string_view>

namespace turbolstm::cuda {

constexpr std::string_view kSplitText = R"text(
constexpr int kSumChunks = kGates * kUnits / 4;  // of 16 bytes, of a row of a block's own sums
constexpr int kFinishThreads = kFinishingWarps == 0 ? kLoopThreads : 32 * kFinishingWarps;

// Where a block finds what another one has summed up for it.
__device__ __forceinline__ char* PeerSums(char* slot, int owner, int from, int row, int chunk) {
  return slot + kXBytes + (((owner * kSplits + from) * kTileRows + row) * kSumChunks + chunk) * 16;
}

// Number i of the chunks that a block writes for others.
struct PeerChunk {
  int peer, row, chunk;
  __device__ __forceinline__ PeerChunk(int split, int i)
      : peer((split + 1 + i / (kSumChunks * kRowsThere)) % kSplits),
        row(i / kSumChunks % kRowsThere),
        chunk(i % kSumChunks) {}
};
constexpr int kPeerChunks = (kSplits - 1) * kRowsThere * kSumChunks;

// By the threads that run the program.
__device__ __forceinline__ void SendSums(char* slot, const float* sums, int part) {
  const int split = part % kSplits;
  for (int i = threadIdx.x - kFirstFinisher; i < kPeerChunks; i += kFinishThreads) {
    const PeerChunk to(split, i);
    const float* const from = sums + to.row * kSumStride + to.peer * kGates * kUnits + to.chunk * 4;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int w = 0; w < kInnerWarps; ++w) {
      const float4 more = *reinterpret_cast<const float4*>(from + w * kTileRows * kSumStride);
      sum.x += more.x;
      sum.y += more.y;
      sum.z += more.z;
      sum.w += more.w;
    }
    const unsigned first = __float_as_uint(sum.x);
    StoreChunk(PeerSums(slot, part - split + to.peer, split, to.row, to.chunk),
               make_uint4(first < kAbsent ? first : kAbsent - 1, __float_as_uint(sum.y),
                          __float_as_uint(sum.z), __float_as_uint(sum.w)));
  }
}

// By one warp, as Clear.
__device__ __forceinline__ void ClearSums(char* slot, int part) {
  const int split = part % kSplits;
  for (int i = threadIdx.x % 32; i < kPeerChunks; i += 32) {
    const PeerChunk to(split, i);
    StoreChunk(PeerSums(slot, part - split + to.peer, split, to.row, to.chunk),
               make_uint4(kAbsent, kAbsent, kAbsent, kAbsent));
  }
}

// Adds to an element's sums what others have summed up, in the order of their numbers; waits for
// it, but not for ever.
__device__ __forceinline__ void AddPeerSums(char* slot, int part, const Place& at, int* fault,
                                            bool* lost, float (&sums)[kGates]) {
  constexpr unsigned kMostPolls = 1u << 22;  // seconds
  if (at.row >= kRowsThere) return;
  const int split = part % kSplits;
  uint4 chunks[kSplits - 1][kGates];
  for (unsigned polls = 0;; ++polls) {
    unsigned most = 0;
#pragma unroll
    for (int i = 0; i < kSplits - 1; ++i) {
#pragma unroll
      for (int g = 0; g < kGates; ++g) {
        chunks[i][g] = LoadChunk(PeerSums(slot, part, i < split ? i : i + 1, at.row,
                                          (g * kUnits + at.unit) / 4));
        most = max(most, chunks[i][g].x);
      }
    }
    if (most != kAbsent || *lost) break;
    if (polls < kMostPolls) continue;
    *lost = true;
    atomicCAS(fault, 0, -1);
  }
  const int word = at.unit % 4;
#pragma unroll
  for (int i = 0; i < kSplits - 1; ++i) {
#pragma unroll
    for (int g = 0; g < kGates; ++g) {
      const uint4& x = chunks[i][g];
      sums[g] += __uint_as_float(word == 0 ? x.x : word == 1 ? x.y : word == 2 ? x.z : x.w);
    }
  }
}
)text";

}  // namespace turbolstm::cuda
