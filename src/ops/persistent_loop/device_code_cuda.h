// What kernels of persistent loops are made of. Like ops/device_rows_cuda.h this text is also what
// kernels compiled at run time begin with, so it includes nothing else.
#pragma once

#include "ops/device_rows_cuda.h"
#include "ops/pointwise/device_code_cuda.h"

namespace turbolstm::cuda {

// Steps for which blocks hand x to each other in memory of its own. A block that has all of x of
// step s - 1 knows that nobody needs step s - 2 any more, marks its part of that as absent, and
// makes this known before it writes x of step s + 1; so who waits for step s + 2 in the same place
// sees no old x.
constexpr int kSlots = 4;
// Likewise where blocks share columns of the product and split its inner axis, so that each has
// only some of x: a block that has any of x of step s - 1 knows that nobody needs step s - 3.
constexpr int kSplitSlots = 8;

// Arguments of a persistent loop over time. Blocks are numbered part by part within a group; a
// group has sequences of its own, a part columns of the weights. The host writes the same bytes:
// the fields one after the other, all of whose sizes are multiples of 8.
struct LoopHead {
  GeneralHead general;
  RowOperand x;  // what the product reads, without its delay of one step
  const char* weight = nullptr;
  long long row_stride = 0;     // elements of the weights from column to column of the product
  long long inner_stride = 0;   // from element to element of x; 1: 16 bytes can be loaded at once
  const float* bias = nullptr;  // by column of the product; null: none
  char* exchange = nullptr;  // [groups, tiles of a group, kSlots] chunks, all absent at the start
  int* fault = nullptr;      // set to -1 when a partner does not answer
  long long tiles = 0;       // of kTileRows sequences, in a group
  // Steps [begin, end) of the walk run now. Those before have run already: what they handed over
  // lies in `exchange` still, and what blocks carry from step to step in `carry`.
  long long begin = 0;
  long long end = 0;
  float* carry = nullptr;  // [blocks, what a block carries]; null: all steps run at once
};

template <int kInputs, int kOutputs>
struct LoopArgs {
  LoopHead head;
  RowOperand in[kInputs];
  RowOutput out[kOutputs];
};

#ifdef __CUDACC__

// Types of operands of products, 16 bytes of a row at once. Elements are dealt out to the products'
// inner positions in whatever order suits loads, the same for both operands.
struct HalfProduct {
  using Bits = unsigned short;
  __device__ static __forceinline__ unsigned Operand(unsigned bits) { return bits; }
};

struct Bf16Product : HalfProduct {
  __device__ static __forceinline__ Bits Narrow(float value) {
    return static_cast<Bits>(NarrowBf16(value));
  }
  __device__ static __forceinline__ void Add(float (&c)[4], unsigned a0, unsigned a1, unsigned a2,
                                             unsigned a3, unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
};

struct Fp16Product : HalfProduct {
  __device__ static __forceinline__ Bits Narrow(float value) {
    return static_cast<Bits>(NarrowFp16(value));
  }
  __device__ static __forceinline__ void Add(float (&c)[4], unsigned a0, unsigned a1, unsigned a2,
                                             unsigned a3, unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
};

struct Tf32Product {
  using Bits = unsigned;
  // To nearest: the product itself would cut off.
  __device__ static __forceinline__ unsigned Operand(unsigned bits) {
    unsigned rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
    return rounded;
  }
  __device__ static __forceinline__ Bits Narrow(float value) {
    return Operand(__float_as_uint(value));
  }
  __device__ static __forceinline__ void Add(float (&c)[4], unsigned a0, unsigned a1, unsigned a2,
                                             unsigned a3, unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
};

// Both products over 16 bytes of each row: two sums, since each waits for what it is added to.
template <typename Product>
__device__ __forceinline__ void AddProducts(float (&first)[4], float (&second)[4],
                                            const uint4& upper, const uint4& lower,
                                            const uint4& weight) {
  Product::Add(first, upper.x, lower.x, upper.y, lower.y, weight.x, weight.y);
  Product::Add(second, upper.z, lower.z, upper.w, lower.w, weight.z, weight.w);
}

// fp32, as split_product.h has it: a number is the sum of three bf16 pieces.
struct PiecesProduct {
  using Bits = unsigned;
  __device__ static __forceinline__ unsigned Operand(unsigned bits) { return bits; }
  __device__ static __forceinline__ Bits Narrow(float value) { return __float_as_uint(value); }
};

// Two numbers, piece by piece; numbers beyond bf16 begin with its largest, and infinity ends in
// NaN.
struct Pieces {
  unsigned of[3];
};

// kAnew: at every use, rather than kept in registers from use to use.
template <bool kAnew>
__device__ __forceinline__ unsigned LargestPieces(float a, float b) {
  unsigned pieces;
  if (kAnew) {
    asm volatile("cvt.rn.satfinite.bf16x2.f32 %0, %1, %2;" : "=r"(pieces) : "f"(b), "f"(a));
  } else {
    asm("cvt.rn.satfinite.bf16x2.f32 %0, %1, %2;" : "=r"(pieces) : "f"(b), "f"(a));
  }
  return pieces;
}

template <bool kAnew>
__device__ __forceinline__ Pieces PiecesOf(unsigned x, unsigned y) {
  Pieces pieces;
  float a = __uint_as_float(x), b = __uint_as_float(y);
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    unsigned& piece = pieces.of[i];
    if (i == 0) {
      piece = LargestPieces<kAnew>(a, b);
    } else {
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(piece) : "f"(b), "f"(a));
    }
    a -= __uint_as_float(piece << 16);
    b -= __uint_as_float(piece & 0xffff0000u);
  }
  return pieces;
}

// The six largest products of pieces; the largest of all by itself where there are two sums.
template <>
__device__ __forceinline__ void AddProducts<PiecesProduct>(float (&first)[4], float (&second)[4],
                                                           const uint4& upper, const uint4& lower,
                                                           const uint4& weight) {
  const Pieces u0 = PiecesOf<false>(upper.x, upper.y), u1 = PiecesOf<false>(upper.z, upper.w);
  const Pieces l0 = PiecesOf<false>(lower.x, lower.y), l1 = PiecesOf<false>(lower.z, lower.w);
  const Pieces w0 = PiecesOf<true>(weight.x, weight.y), w1 = PiecesOf<true>(weight.z, weight.w);
#pragma unroll
  for (int sum = 2; sum >= 0; --sum) {
#pragma unroll
    for (int i = 0; i <= sum; ++i) {
      Bf16Product::Add(sum == 0 ? first : second, u0.of[i], l0.of[i], u1.of[i], l1.of[i],
                       w0.of[sum - i], w1.of[sum - i]);
    }
  }
}

// Sixteen bytes that blocks hand to each other: written and read at once, never from this
// multiprocessor's own cache. Their first word tells whether they have come.
constexpr unsigned kAbsent = 0xffffffffu;  // in every type of operand a number that is none

__device__ __forceinline__ uint4 LoadChunk(const char* address) {
  unsigned long long low, high;
  asm volatile(
      "{\n"
      ".reg .b128 chunk;\n"
      "ld.relaxed.gpu.global.b128 chunk, [%2];\n"
      "mov.b128 {%0, %1}, chunk;\n"
      "}\n"
      : "=l"(low), "=l"(high)
      : "l"(address)
      : "memory");
  return make_uint4(static_cast<unsigned>(low), static_cast<unsigned>(low >> 32),
                    static_cast<unsigned>(high), static_cast<unsigned>(high >> 32));
}

__device__ __forceinline__ void StoreChunk(char* address, uint4 x) {
  const unsigned long long low = static_cast<unsigned long long>(x.y) << 32 | x.x;
  const unsigned long long high = static_cast<unsigned long long>(x.w) << 32 | x.z;
  asm volatile(
      "{\n"
      ".reg .b128 chunk;\n"
      "mov.b128 chunk, {%1, %2};\n"
      "st.relaxed.gpu.global.b128 [%0], chunk;\n"
      "}\n"
      :
      : "l"(address), "l"(low), "l"(high)
      : "memory");
}

// Neighbouring lanes' elements as a chunk, in the first lane of each 16 bytes; another lane's is
// meaningless. A lane has kCount elements side by side.
template <int kCount>
__device__ __forceinline__ uint4 GatherChunk(const unsigned* x) {
  constexpr unsigned kAll = 0xffffffffu;
  const unsigned first = x[0] < kAbsent ? x[0] : kAbsent - 1;
  if (kCount == 4) return make_uint4(first, x[1], x[kCount / 2], x[kCount - 1]);
  if (kCount == 2) {
    return make_uint4(first, x[1], __shfl_down_sync(kAll, x[0], 1),
                      __shfl_down_sync(kAll, x[1], 1));
  }
  return make_uint4(first, __shfl_down_sync(kAll, x[0], 1), __shfl_down_sync(kAll, x[0], 2),
                    __shfl_down_sync(kAll, x[0], 3));
}

template <int kCount>
__device__ __forceinline__ uint4 GatherChunk(const unsigned short* x) {
  constexpr unsigned kAll = 0xffffffffu;
  if (kCount == 1) {
    const unsigned pair = x[0] | __shfl_down_sync(kAll, static_cast<unsigned>(x[0]), 1) << 16;
    return make_uint4(pair < kAbsent ? pair : kAbsent - 1, __shfl_down_sync(kAll, pair, 2),
                      __shfl_down_sync(kAll, pair, 4), __shfl_down_sync(kAll, pair, 6));
  }
  unsigned words[2];
#pragma unroll
  for (int w = 0; w < kCount / 2; ++w)
    words[w] = x[2 * w] | static_cast<unsigned>(x[2 * w + 1]) << 16;
  return GatherChunk<kCount / 2>(words);
}

// An element as it lies in memory: it is made a number only when it is needed, so that nothing
// waits for it before. Zero where there is no row.
template <typename Type>
__device__ __forceinline__ typename Type::Bits LoadBits(const char* row, long long j) {
  typename Type::Bits bits = 0;
  if (row) bits = reinterpret_cast<const typename Type::Bits*>(row)[j];
  return bits;
}

// Row `row` of an operand or output.
template <typename Row>
__device__ __forceinline__ auto RowAt(const Row& x, unsigned row) {
  return x.data + static_cast<unsigned long long>(row) * static_cast<unsigned>(x.row_bytes);
}

__device__ __forceinline__ void FenceDevice() {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

#endif  // __CUDACC__

}  // namespace turbolstm::cuda
