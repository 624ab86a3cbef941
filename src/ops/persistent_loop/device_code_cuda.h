// What kernels of persistent loops are made of. Like ops/device_rows_cuda.h this text is also what
// kernels compiled at run time begin with, so it includes nothing else.
#pragma once

#include "ops/device_rows_cuda.h"
#include "ops/pointwise/device_code_cuda.h"

namespace turbolstm::cuda {

// Sequences that a block works on at once: the rows of a tensor core's product.
constexpr int kTileRows = 16;
// Arguments of a persistent loop over time. Blocks are numbered part by part within a group; a
// group has sequences of its own, a part columns of the weights. The host writes the same bytes:
// the fields one after the other, all of whose sizes are multiples of 8.
struct LoopHead {
  GeneralHead general;
  RowOperand x;  // what the product reads, without its delay of one step
  const char* weight = nullptr;
  long long weight_stride = 0;      // elements from row to row
  long long weight_transposed = 0;  // the product reads columns of it
  const float* bias = nullptr;      // by column of the product; null: none
  unsigned* arrivals = nullptr;     // [groups, tiles of a group], zero at the start
  int* fault = nullptr;             // set to -1 when a partner does not answer
  long long parts = 0;
  long long tiles = 0;  // of kTileRows sequences, in a group
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
struct Bf16Product {
  static constexpr int kBytes = 2;
  __device__ static __forceinline__ unsigned Operand(unsigned bits) { return bits; }
  __device__ static __forceinline__ void Add(float (&c)[4], unsigned a0, unsigned a1, unsigned a2,
                                             unsigned a3, unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
};

struct Fp16Product {
  static constexpr int kBytes = 2;
  __device__ static __forceinline__ unsigned Operand(unsigned bits) { return bits; }
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
  static constexpr int kBytes = 4;
  // To nearest: the product itself would cut off.
  __device__ static __forceinline__ unsigned Operand(unsigned bits) {
    unsigned rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
    return rounded;
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

template <typename Product>
__device__ __forceinline__ uint4 Operands(uint4 x) {
  return make_uint4(Product::Operand(x.x), Product::Operand(x.y), Product::Operand(x.z),
                    Product::Operand(x.w));
}

// Both products over 16 bytes of each row.
template <typename Product>
__device__ __forceinline__ void AddProducts(float (&c)[4], const uint4& upper, const uint4& lower,
                                            const uint4& weight) {
  Product::Add(c, upper.x, lower.x, upper.y, lower.y, weight.x, weight.y);
  Product::Add(c, upper.z, lower.z, upper.w, lower.w, weight.z, weight.w);
}

// What another block wrote before it said so: never from this multiprocessor's own cache. Zeros
// unless `there`.
__device__ __forceinline__ uint4 LoadShared16(const char* address, bool there) {
  uint4 x;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.u32 p, %5, 0;\n"
      "mov.u32 %0, 0;\n"
      "mov.u32 %1, 0;\n"
      "mov.u32 %2, 0;\n"
      "mov.u32 %3, 0;\n"
      "@p ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];\n"
      "}\n"
      : "=&r"(x.x), "=&r"(x.y), "=&r"(x.z), "=&r"(x.w)
      : "l"(address), "r"(static_cast<unsigned>(there))
      : "memory");
  return x;
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

// Barriers of a block.
constexpr int kArrived = 1;  // x of the step before is there: waiting and computing warps
constexpr int kSummed = 2;   // partial sums are in shared memory: computing warps
constexpr int kWritten = 3;  // this block's part of x is written: computing and telling warps

__device__ __forceinline__ void Meet(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" : : "r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void Arrive(unsigned* arrivals) {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" : : "l"(arrivals) : "memory");
}

// Waits for `count` arrivals, but not for ever: a partner that is lost ends in an error.
__device__ __forceinline__ void Await(const unsigned* arrivals, unsigned count, int* fault,
                                      bool* lost) {
  constexpr unsigned kMostPolls = 1u << 22;  // seconds
  unsigned seen = 0;
  for (unsigned polls = 0; !*lost; ++polls) {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(arrivals) : "memory");
    if (seen >= count) return;
    if (polls < kMostPolls) continue;
    *lost = true;
    atomicCAS(fault, 0, -1);
  }
}

#endif  // __CUDACC__

}  // namespace turbolstm::cuda
