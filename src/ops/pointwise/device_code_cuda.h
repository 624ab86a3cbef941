// What kernels emitted from pointwise programs are made of: their arguments, memory, operators.
// Like ops/device_rows_cuda.h this text is also what kernels compiled at run time begin with, so it
// includes nothing else.
#pragma once

#include "ops/device_rows_cuda.h"

namespace turbolstm::cuda {

// Arguments of kernels that look up the row of every operand, whatever its delay. The host writes
// the same bytes: the fields one after the other, all of whose sizes are multiples of 8.
struct GeneralHead {
  Sequences sequences;
  RowRange range;
  long long n = 0;
  int reverse = 0;  // time loops: from the last step to the first
  int lean = 0;     // time loops: see TimeLoopArgs
};

template <int kInputs, int kOutputs>
struct GeneralArgs {
  GeneralHead head;
  RowOperand in[kInputs == 0 ? 1 : kInputs];
  RowOutput out[kOutputs];
};

// Arguments of loops over time. Where `lean` is set, every operand is read without a delay, or it
// is what output number `carried` was one step before; -1: the former.
template <int kInputs, int kOutputs>
struct TimeLoopArgs {
  GeneralHead head;
  RowOperand in[kInputs == 0 ? 1 : kInputs];
  RowOutput out[kOutputs];
  int carried[kInputs == 0 ? 1 : kInputs];
};

// Arguments of kernels whose rows lie at fixed distances: the row of sequence b in step s of the
// range is (s * step_rows + b) * row_bytes behind `data`.
struct PlainRow {
  char* data = nullptr;
  int row_bytes = 0;
  int step_rows = 0;
};

struct PlainHead {
  const int* lengths = nullptr;  // null: no padding
  int time_begin = 0;
  int steps = 0;
  int batch = 0;
  int n = 0;
};

// An operand is zero unless more than `beyond` steps of its sequence are left.
constexpr int kAlwaysThere = -0x7fffffff;

template <int kInputs, int kOutputs>
struct PlainArgs {
  PlainHead head;
  PlainRow in[kInputs == 0 ? 1 : kInputs];
  PlainRow out[kOutputs];
  int beyond[kInputs == 0 ? 1 : kInputs];
};

// Threads of a block at most.
constexpr int kBlockThreads = 128;
// Of a loop over time that runs as a parallel prefix, where x counts elements and y parts of time.
constexpr int kScanThreads = 512;

#ifdef __CUDACC__

// Until all that the launch depends on has ended, and is seen. Comes before anything is read.
__device__ __forceinline__ void AwaitPredecessors() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" : : : "memory");
#endif
}

// V neighbouring elements.
template <int V>
struct Pack {
  float e[V];
};

template <int V>
__device__ __forceinline__ Pack<V> Spread(float value) {
  Pack<V> pack;
#pragma unroll
  for (int k = 0; k < V; ++k) pack.e[k] = value;
  return pack;
}

__device__ __forceinline__ float WidenBf16(unsigned bits) {
  return __uint_as_float(bits << 16);
}

// To nearest, ties to even; NaN stays NaN.
__device__ __forceinline__ unsigned NarrowBf16(float value) {
#if __CUDA_ARCH__ >= 800
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
#else
  const unsigned wide = __float_as_uint(value);
  if ((wide & 0x7fffffffu) > 0x7f800000u) return (wide >> 16) | 0x40u;
  return (wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16;
#endif
}

__device__ __forceinline__ float WidenFp16(unsigned bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<unsigned short>(bits)));
  return value;
}

__device__ __forceinline__ unsigned NarrowFp16(float value) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

// Types in memory. Loads and stores are plain ones: a kernel may write what it reads later.
struct Fp32 {
  using Bits = float;
  __device__ static __forceinline__ float Widen(float value) { return value; }
  __device__ static __forceinline__ float Narrow(float value) { return value; }
};
struct Bf16 {
  using Bits = unsigned short;
  __device__ static __forceinline__ float Widen(unsigned bits) { return WidenBf16(bits); }
  __device__ static __forceinline__ unsigned Narrow(float value) { return NarrowBf16(value); }
};
struct Fp16 {
  using Bits = unsigned short;
  __device__ static __forceinline__ float Widen(unsigned bits) { return WidenFp16(bits); }
  __device__ static __forceinline__ unsigned Narrow(float value) { return NarrowFp16(value); }
};

template <typename Type, int V>
struct Memory;

template <typename Type>
struct Memory<Type, 1> {
  __device__ static __forceinline__ Pack<1> Load(const char* row, long long j) {
    return {Type::Widen(reinterpret_cast<const typename Type::Bits*>(row)[j])};
  }
  __device__ static __forceinline__ void Store(char* row, long long j, const Pack<1>& x) {
    using Bits = typename Type::Bits;
    reinterpret_cast<Bits*>(row)[j] = static_cast<Bits>(Type::Narrow(x.e[0]));
  }
};

template <>
struct Memory<Fp32, 4> {
  __device__ static __forceinline__ Pack<4> Load(const char* row, long long j) {
    const float4 x = *reinterpret_cast<const float4*>(row + j * 4);
    return {{x.x, x.y, x.z, x.w}};
  }
  __device__ static __forceinline__ void Store(char* row, long long j, const Pack<4>& x) {
    *reinterpret_cast<float4*>(row + j * 4) = make_float4(x.e[0], x.e[1], x.e[2], x.e[3]);
  }
};

template <typename Type>
struct Memory<Type, 4> {
  __device__ static __forceinline__ Pack<4> Load(const char* row, long long j) {
    const uint2 x = *reinterpret_cast<const uint2*>(row + j * 2);
    return {{Type::Widen(x.x & 0xffffu), Type::Widen(x.x >> 16), Type::Widen(x.y & 0xffffu),
             Type::Widen(x.y >> 16)}};
  }
  __device__ static __forceinline__ void Store(char* row, long long j, const Pack<4>& x) {
    *reinterpret_cast<uint2*>(row + j * 2) =
        make_uint2(Type::Narrow(x.e[0]) | Type::Narrow(x.e[1]) << 16,
                   Type::Narrow(x.e[2]) | Type::Narrow(x.e[3]) << 16);
  }
};

template <typename Type, int V>
__device__ __forceinline__ Pack<V> Load(const char* row, long long j) {
  return Memory<Type, V>::Load(row, j);
}

// A row that is not there holds zeros.
template <typename Type>
__device__ __forceinline__ float LoadOrZero(const char* row, long long j) {
  return row ? Memory<Type, 1>::Load(row, j).e[0] : 0.0f;
}

// Zeros where nothing is left of the sequence.
template <typename Type, int V>
__device__ __forceinline__ void StoreKept(char* row, long long j, Pack<V> x, int left) {
#pragma unroll
  for (int k = 0; k < V; ++k) x.e[k] = left > 0 ? x.e[k] : 0.0f;
  Memory<Type, V>::Store(row, j, x);
}

template <typename Type>
__device__ __forceinline__ void Store(char* row, long long j, float x) {
  Memory<Type, 1>::Store(row, j, {x});
}

__device__ __forceinline__ float Kept(float x, int left, int beyond) {
  return left > beyond ? x : 0.0f;
}

// Out of line: kernels call it for every operand, and most operands never need it.
inline __device__ __noinline__ const char* LookedUpRow(const RowOperand& x,
                                                       const Sequences& sequences, long long t,
                                                       long long b) {
  return RowAddress(x, sequences, t, b);
}

// RowAddress, quickly for what is read without a delay.
__device__ __forceinline__ const char* OperandRow(const RowOperand& x, const Sequences& sequences,
                                                  long long t, long long b) {
  if (x.delay == 0 && x.data && t < x.period) {
    const long long row = x.kind == RowKind::kShared  ? 0
                          : x.kind == RowKind::kBatch ? b
                                                      : t * sequences.batch + b;
    return x.data + row * x.row_bytes;
  }
  return LookedUpRow(x, sequences, t, b);
}

// Steps between the request of an operand and its use in a lean loop over time.
constexpr int kStepsAhead = 6;

// An element that a lean loop over time follows from step to step.
struct Track {
  char* element;     // null: zeros
  long long stride;  // bytes to the next step
  long long left;    // steps until it is back where its ring begins
  long long ring;    // steps of the ring
};

template <typename Type>
__device__ __forceinline__ Track TrackFrom(char* data, RowKind kind, long long row_bytes,
                                           long long period, const Sequences& sequences,
                                           long long first, long long way, long long b,
                                           long long j) {
  if (!data) return {nullptr, 0, first + sequences.steps + 1, 0};
  const long long slot = first % period;
  char* const row = data + RowIndex(kind, period, sequences.batch, first, b) * row_bytes;
  return {row + j * static_cast<long long>(sizeof(typename Type::Bits)),
          kind == RowKind::kStep ? way * sequences.batch * row_bytes : 0,
          way > 0 ? period - slot : slot + 1, period};
}

template <typename Type>
__device__ __forceinline__ Track TrackOf(const RowOperand& x, const Sequences& sequences,
                                         long long first, long long way, long long b, long long j) {
  return TrackFrom<Type>(const_cast<char*>(x.data), x.kind, x.row_bytes, x.period, sequences, first,
                         way, b, j);
}
template <typename Type>
__device__ __forceinline__ Track TrackOf(const RowOutput& y, const Sequences& sequences,
                                         long long first, long long way, long long b, long long j) {
  return TrackFrom<Type>(y.data, y.kind, y.row_bytes, y.period, sequences, first, way, b, j);
}

__device__ __forceinline__ void Advance(Track& track) {
  track.element += track.stride;
  if (--track.left > 0) return;
  track.element -= track.ring * track.stride;
  track.left = track.ring;
}

// The element of this step; asks for one that a later step will read.
template <typename Type>
__device__ __forceinline__ float Follow(const Track& track, bool more) {
  if (more && track.element && track.left > kStepsAhead) {
    asm volatile("prefetch.global.L1 [%0];" : : "l"(track.element + kStepsAhead * track.stride));
  }
  return LoadOrZero<Type>(track.element, 0);
}

// What an element is once it has been in memory.
template <typename Type>
__device__ __forceinline__ float Rounded(float x) {
  return Type::Widen(static_cast<typename Type::Bits>(Type::Narrow(x)));
}

// What a carried operand reads at the first step of a loop, and where its sequence begins.
template <typename Type>
__device__ __forceinline__ float FirstCarried(const RowOperand& x, const Sequences& sequences,
                                              long long first, long long b, long long j) {
  // Behind the end nothing is read, and the row may be any.
  if (first >= LengthOf(sequences, b)) return 0.0f;
  return LoadOrZero<Type>(LookedUpRow(x, sequences, first, b), j);
}
template <typename Type>
__device__ __forceinline__ float InitCarried(const RowOperand& x, long long b, long long j) {
  return x.adjoint ? 0.0f : LoadOrZero<Type>(InitAddress(x, b, 0), j);
}

// Steps left of sequence b at step s of the range, itself counted.
__device__ __forceinline__ int StepsLeft(const PlainHead& head, int s, int b) {
  return head.lengths ? head.lengths[b] - (head.time_begin + s) : 0x7fffffff;
}

__device__ __forceinline__ char* RowOf(const PlainRow& x, int s, int b) {
  return x.data + static_cast<long long>(s * x.step_rows + b) * x.row_bytes;
}

// A thread's share of the columns (x), rows (y) and steps (z) that a launch runs over.
template <typename Int, int V>
__device__ __forceinline__ Int FirstColumn() {
  return (static_cast<Int>(blockIdx.x) * static_cast<Int>(blockDim.x) +
          static_cast<Int>(threadIdx.x)) *
         V;
}
template <typename Int, int V>
__device__ __forceinline__ Int ColumnStride() {
  return static_cast<Int>(gridDim.x) * static_cast<Int>(blockDim.x) * V;
}
template <typename Int>
__device__ __forceinline__ Int FirstRow() {
  return static_cast<Int>(blockIdx.y) * static_cast<Int>(blockDim.y) +
         static_cast<Int>(threadIdx.y);
}
template <typename Int>
__device__ __forceinline__ Int RowStride() {
  return static_cast<Int>(gridDim.y) * static_cast<Int>(blockDim.y);
}

// The operators (PointwiseOp), in fp32. Sums and products are never contracted, so that all kernels
// of a program give the same bits.
__device__ __forceinline__ float Add(float a, float b) {
  return __fadd_rn(a, b);
}
__device__ __forceinline__ float Sub(float a, float b) {
  return __fsub_rn(a, b);
}
__device__ __forceinline__ float Mul(float a, float b) {
  return __fmul_rn(a, b);
}
__device__ __forceinline__ float Div(float a, float b) {
  return __fdiv_rn(a, b);
}
__device__ __forceinline__ float Max(float a, float b) {
  return a > b || a != a ? a : b;
}
__device__ __forceinline__ float Min(float a, float b) {
  return a < b || a != a ? a : b;
}
__device__ __forceinline__ float Neg(float a) {
  return -a;
}
__device__ __forceinline__ float OneMinus(float a) {
  return __fsub_rn(1.0f, a);
}
// The quotient is 0 where it would be no normal number.
__device__ __forceinline__ float Sigmoid(float a) {
  return __fdividef(1.0f, __fadd_rn(1.0f, expf(-a)));
}
__device__ __forceinline__ float Tanh(float a) {
  return tanhf(a);
}
__device__ __forceinline__ float Relu(float a) {
  return a < 0.0f ? 0.0f : a;
}
__device__ __forceinline__ float Softplus(float a) {
  return __fadd_rn(a > 0.0f ? a : 0.0f, log1pf(expf(-fabsf(a))));
}
__device__ __forceinline__ float LogSigmoid(float a) {
  return -Softplus(-a);
}
__device__ __forceinline__ float Exp(float a) {
  return expf(a);
}
__device__ __forceinline__ float Log(float a) {
  return logf(a);
}
__device__ __forceinline__ float Sqrt(float a) {
  return __fsqrt_rn(a);
}
__device__ __forceinline__ float Rsqrt(float a) {
  return rsqrtf(a);
}
__device__ __forceinline__ float Reciprocal(float a) {
  return __frcp_rn(a);
}
__device__ __forceinline__ float Abs(float a) {
  return fabsf(a);
}
__device__ __forceinline__ float Sin(float a) {
  return sinf(a);
}
__device__ __forceinline__ float Cos(float a) {
  return cosf(a);
}
__device__ __forceinline__ float Greater(float a, float b) {
  return a > b ? 1.0f : 0.0f;
}
__device__ __forceinline__ float Select(float a, float b, float c) {
  return a != 0.0f ? b : c;
}
__device__ __forceinline__ float Copy(float a) {
  return a;
}

// A state some steps later as it follows from what it is now: a * state + c.
struct Affine {
  float a, c;
};

// A coefficient of zero forgets a state that is not finite; and of a state of zero nothing comes.
__device__ __forceinline__ float Apply(const Affine& f, float state) {
  return f.a == 0.0f || state == 0.0f ? f.c : __fmaf_rn(f.a, state, f.c);
}
__device__ __forceinline__ Affine Fixed(const Affine& f, float state) {
  return {0.0f, Apply(f, state)};
}
__device__ __forceinline__ Affine Then(const Affine& first, const Affine& second) {
  const bool forgets = first.a == 0.0f || second.a == 0.0f;
  return {forgets ? 0.0f : __fmul_rn(second.a, first.a), Apply(second, first.c)};
}

__device__ __forceinline__ Affine Add(const Affine& x, const Affine& y) {
  return {__fadd_rn(x.a, y.a), __fadd_rn(x.c, y.c)};
}
__device__ __forceinline__ Affine Add(const Affine& x, float y) {
  return {x.a, __fadd_rn(x.c, y)};
}
__device__ __forceinline__ Affine Add(float x, const Affine& y) {
  return Add(y, x);
}
__device__ __forceinline__ Affine Neg(const Affine& x) {
  return {-x.a, -x.c};
}
__device__ __forceinline__ Affine Sub(const Affine& x, const Affine& y) {
  return {__fsub_rn(x.a, y.a), __fsub_rn(x.c, y.c)};
}
__device__ __forceinline__ Affine Sub(const Affine& x, float y) {
  return {x.a, __fsub_rn(x.c, y)};
}
__device__ __forceinline__ Affine Sub(float x, const Affine& y) {
  return {-y.a, __fsub_rn(x, y.c)};
}
__device__ __forceinline__ Affine OneMinus(const Affine& x) {
  return Sub(1.0f, x);
}
__device__ __forceinline__ Affine Mul(const Affine& x, float y) {
  return {__fmul_rn(x.a, y), __fmul_rn(x.c, y)};
}
__device__ __forceinline__ Affine Mul(float x, const Affine& y) {
  return Mul(y, x);
}
__device__ __forceinline__ Affine Div(const Affine& x, float y) {
  return {__fdiv_rn(x.a, y), __fdiv_rn(x.c, y)};
}
__device__ __forceinline__ Affine Copy(const Affine& x) {
  return x;
}
__device__ __forceinline__ Affine AsAffine(const Affine& x) {
  return x;
}
__device__ __forceinline__ Affine AsAffine(float x) {
  return {0.0f, x};
}
template <typename B, typename C>
__device__ __forceinline__ Affine Select(float a, const B& b, const C& c) {
  return a != 0.0f ? AsAffine(b) : AsAffine(c);
}

// Steps of a parallel prefix whose loads are on the way together.
constexpr int kScanAhead = 8;

// What a thread of a parallel prefix runs over: element j of sequence b, at every `delay`th step of
// the loop from the number `chain` on; of these steps those with the numbers [begin, end).
struct ScanPlace {
  long long b, j;
  long long begin, end;
  long long first, stride;  // time of number 0, and from one to the next
  long long length;         // of the sequence; of all steps where there is no padding
  long long chain, delay, steps;

  __device__ __forceinline__ long long Step(long long m) const { return first + m * stride; }
  // A step that is there, if any is: what is loaded for steps behind the last is not used.
  __device__ __forceinline__ long long Within(long long m) const { return min(m, end - 1); }
  __device__ __forceinline__ bool IsValid(long long m) const { return Step(m) < length; }
  // A ring keeps the last steps of the loop.
  __device__ __forceinline__ bool IsKept(long long m, long long period) const {
    return steps - (chain + m * delay) <= period;
  }
};

__device__ __forceinline__ ScanPlace ScanPlaceOf(const GeneralHead& head, long long delay) {
  const Sequences& sequences = head.sequences;
  const long long way = head.reverse ? -1 : 1;
  const long long elements = sequences.batch * head.n;
  const long long number = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  ScanPlace place{};
  place.delay = delay;
  place.steps = head.range.steps;
  place.chain = number / elements;
  if (place.chain >= delay || place.chain >= place.steps) return place;
  const long long element = number - place.chain * elements;
  place.b = element / head.n;
  place.j = element - place.b * head.n;
  place.length = head.range.padded ? LengthOf(sequences, place.b) : place.steps;
  place.first = (way < 0 ? place.steps - 1 : 0) + place.chain * way;
  place.stride = delay * way;
  const long long count = (place.steps - place.chain + delay - 1) / delay;
  const long long part = (count + blockDim.y - 1) / blockDim.y;
  place.begin = min(count, threadIdx.y * part);
  place.end = min(count, place.begin + part);
  return place;
}

// Where an element is at the steps of a thread, one behind the other at a fixed distance.
struct ScanTrack {
  char* element;
  long long stride;

  __device__ __forceinline__ char* At(long long m) const { return element + m * stride; }
};

template <typename Type, typename Rows>
__device__ __forceinline__ ScanTrack ScanTrackOf(const Rows& x, const Sequences& sequences,
                                                 const ScanPlace& place, long long column) {
  const bool steps = x.kind == RowKind::kStep;
  const long long row = x.kind == RowKind::kShared ? 0
                        : steps                    ? place.first * sequences.batch + place.b
                                                   : place.b;
  return {const_cast<char*>(x.data) + row * x.row_bytes +
              column * static_cast<long long>(sizeof(typename Type::Bits)),
          steps ? place.stride * sequences.batch * x.row_bytes : 0};
}

// Whether a valid step of a loop reads an initial value, or zero, in place of the carried operand.
__device__ __forceinline__ bool IsCut(const RowOperand& x, const Sequences& sequences,
                                      const ScanPlace& place, long long t, float* init) {
  const bool forward = (x.direction > 0) != x.adjoint;
  const long long length = LengthOf(sequences, place.b);
  const long long u = forward ? t : length - 1 - t;
  if (x.adjoint) {
    return u + x.delay >= length ||
           LatestReset(sequences, place.b, length, forward, u, u + x.delay) >= 0;
  }
  const long long reset = LatestReset(sequences, place.b, length, forward, u - x.delay, u);
  if (reset < 0 && u >= x.delay) return false;
  *init = LoadOrZero<Fp32>(InitAddress(x, place.b, reset < 0 ? u : u - reset), place.j);
  return true;
}

// The state before the steps of this thread, given what they make of it and what those of the
// threads with a smaller y do. No step is the first of a sequence and reads an earlier state, so
// the first part begins with any.
__device__ __forceinline__ float StateBefore(Affine part) {
  __shared__ Affine parts[kScanThreads];
  const int own = threadIdx.y * blockDim.x + threadIdx.x;
  for (int distance = 1; distance < blockDim.y; distance *= 2) {
    parts[own] = part;
    __syncthreads();
    if (threadIdx.y >= distance) part = Then(parts[own - distance * blockDim.x], part);
    __syncthreads();
  }
  parts[own] = part;
  __syncthreads();
  return threadIdx.y == 0 ? 0.0f : parts[own - blockDim.x].c;
}

#endif  // __CUDACC__

}  // namespace turbolstm::cuda
