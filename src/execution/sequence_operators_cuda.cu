// Operators that look at whole sequences.

#include <math_constants.h>

#include "execution/launch_cuda.h"
#include "execution/row_access_cuda.h"

namespace turbolstm::cuda {
namespace {

// --- Walks (graph/walk.h). The direction of an edge is its operand's.

__device__ bool IsForward(const RowOperand& x) {
  return x.direction > 0;
}

__device__ long long Position(long long step, long long length, bool forward) {
  return forward ? step : length - 1 - step;
}

// Which row of the final state of an edge comes from position u; -1: none (Walk::ReadFinal).
__device__ long long ReadFinal(const Sequences& sequences, long long b, long long u,
                               long long delay, bool forward) {
  const long long length = LengthOf(sequences, b);
  const long long row = u + delay - length;
  if (row < 0 || LatestReset(sequences, b, length, forward, u, length - 1) >= 0) return -1;
  return row;
}

// Which row of the initial value a reader at position u finds; -1: none (Walk::Read).
__device__ long long ReadInit(const Sequences& sequences, long long b, long long u, long long delay,
                              bool forward) {
  const long long length = LengthOf(sequences, b);
  const long long reset = LatestReset(sequences, b, length, forward, u - delay, u);
  if (reset >= 0) return u - reset;
  return u < delay ? u : -1;
}

// --- Operators whose rows do not depend on each other. Where they make histories, a "step" of
// theirs is a row of the history.

// History row `t` of sequence b: what its reader behind the end finds.
struct FinalBody {
  RowOperand x;
  RowOutput y;
  long long n;

  __device__ void operator()(const Sequences& sequences, const Site& site) const {
    const long long behind = LengthOf(sequences, site.b) + site.t;
    const char* row = ReadBehind(x, sequences, behind, site.b, IsForward(x));
    char* result = RowAddress(y, sequences, 0, site.b) + site.t * n * ElementBytes(y.dtype);
    CopyRow(row, x.dtype, 0, result, y.dtype, n, site);
  }
};

struct FinalGradBody {
  RowOperand x;
  RowOutput y;
  long long n;
  long long delay;

  __device__ void operator()(const Sequences& sequences, const Site& site) const {
    const char* row = nullptr;
    long long history = -1;
    if (!site.padding) {
      const long long length = LengthOf(sequences, site.b);
      history =
          ReadFinal(sequences, site.b, Position(site.t, length, IsForward(x)), delay, IsForward(x));
    }
    if (history >= 0) row = RowAddress(x, sequences, site.t, site.b);
    CopyRow(row, x.dtype, history * n, RowAddress(y, sequences, site.t, site.b), y.dtype, n, site);
  }
};

// What readers behind the end found in row `t` of the initial value goes back there.
struct FinalInitGradBody {
  RowOperand x;
  RowOutput y;
  long long n;
  long long delay;

  __device__ void operator()(const Sequences& sequences, const Site& site) const {
    const long long length = LengthOf(sequences, site.b);
    const char* row = RowAddress(x, sequences, 0, site.b);
    long long from = -1;  // no two readers find the same row
    for (long long j = 0; j < delay; ++j) {
      if (ReadInit(sequences, site.b, length + j, delay, IsForward(x)) == site.t) from = j;
    }
    char* result = RowAddress(y, sequences, 0, site.b) + site.t * n * ElementBytes(y.dtype);
    CopyRow(from < 0 ? nullptr : row, x.dtype, from * n, result, y.dtype, n, site);
  }
};

// --- Operators that add up over time. An element of a batch value has threadIdx.x; `parts` threads
// share its steps, and threadIdx.y is their number.

struct TimeShape {
  int lanes = kBlockThreads;
  int parts = 1;
  unsigned blocks = 0;
};

TimeShape ShapeOver(int64_t elements, int64_t steps) {
  constexpr int64_t kEnoughThreads = int64_t{1} << 17;
  constexpr int kMostParts = 128;
  constexpr int kFewestLanes = 8;
  constexpr int64_t kStepsWorthAThread = 4;
  TimeShape shape;
  const int64_t wanted =
      std::min(kEnoughThreads / std::max<int64_t>(elements, 1), steps / kStepsWorthAThread);
  shape.parts = PowerOfTwoAtLeast(wanted, kMostParts);
  shape.lanes = std::max(kBlockThreads / shape.parts, kFewestLanes);
  shape.blocks = GridFor(elements, shape.lanes);
  return shape;
}

// The sum of the parts' values, in thread 0 of the parts. All threads of the block take part.
__device__ float SumOfParts(float x) {
  extern __shared__ float partial[];
  const int place = threadIdx.y * blockDim.x + threadIdx.x;
  partial[place] = x;
  for (int half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) partial[place] += partial[place + half * blockDim.x];
  }
  __syncthreads();  // before the next element is written
  return partial[place];
}

// Element i at steps t, t + blockDim.y, ...; zeros from `length` on. The loads are on the way
// together.
template <int kSteps>
__device__ void LoadSteps(const RowOperand& x, const Sequences& sequences, long long t,
                          long long length, long long b, long long i, float (&y)[kSteps]) {
  const char* rows[kSteps];
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    const long long u = t + k * blockDim.y;
    rows[k] = u < length ? RowAddress(x, sequences, u, b) : nullptr;
  }
  const auto load = [&](auto element) {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) y[k] = rows[k] ? element(rows[k]) : 0.0f;
  };
  if (static_cast<DType>(x.dtype) == DType::kFloat32) {
    load([i](const char* row) { return reinterpret_cast<const float*>(row)[i]; });
  } else {
    load([&](const char* row) { return LoadOne(row, x.dtype, i); });
  }
}

// Four columns of a batch value are an element here.
struct SumTimeBody {
  RowOperand x;
  RowOutput y;
  long long width;
  long long n;  // fours in it

  __device__ void operator()(const Sequences& sequences, long long b, long long i,
                             bool exists) const {
    constexpr int kAtOnce = 4;
    extern __shared__ float shared[];
    auto* partial = reinterpret_cast<Four*>(shared);
    Four sum;
    const long long length = exists ? LengthOf(sequences, b) : 0;
    for (long long t = threadIdx.y; t < length; t += kAtOnce * blockDim.y) {
      const char* rows[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const long long u = t + k * blockDim.y;
        rows[k] = u < length ? RowAddress(x, sequences, u, b) : nullptr;
      }
      Four some[kAtOnce];
      LoadFours(rows, x.dtype, 4 * i, width, some);
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) AddTo(&sum, some[k]);
    }
    const int place = threadIdx.y * blockDim.x + threadIdx.x;
    partial[place] = sum;
    for (int half = blockDim.y / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.y < half) AddTo(&partial[place], partial[place + half * blockDim.x]);
    }
    if (exists && threadIdx.y == 0) {
      StoreFour(RowAddress(y, sequences, 0, b), y.dtype, 4 * i, width, partial[place]);
    }
    __syncthreads();  // before the next element is written
  }
};

// Element (history row h, i) of a sequence is the sum over readers that find row h: those h
// positions behind a beginning (of the sequence, or a reset) that no later reset cuts off.
struct InitGradBody {
  RowOperand x;
  RowOutput y;
  long long n;  // delay * n of the operand
  long long operand_width;

  __device__ void operator()(const Sequences& sequences, long long b, long long i,
                             bool exists) const {
    float sum = 0;
    const long long length = exists ? LengthOf(sequences, b) : 0;
    const long long history = exists ? Quotient(i, operand_width) : 0;
    const bool forward = IsForward(x);
    const long long last = sequences.resets ? length - 1 : min(length - 1, 0LL);
    for (long long begin = threadIdx.y; begin <= last; begin += blockDim.y) {
      const unsigned char reset =
          sequences.resets
              ? sequences.resets[Position(begin, length, forward) * sequences.batch + b]
              : 0;
      const bool begins = reset != kFromZeros && (begin == 0 || reset != 0);
      const long long u = begin + history;
      if (!begins || u >= length) continue;
      if (LatestReset(sequences, b, length, forward, begin, u) >= 0) continue;
      const char* row = RowAddress(x, sequences, Position(u, length, forward), b);
      if (row) sum += LoadOne(row, x.dtype, i - history * operand_width);
    }
    sum = SumOfParts(sum);
    if (exists && threadIdx.y == 0) StoreOne(RowAddress(y, sequences, 0, b), y.dtype, i, sum);
  }
};

struct FirstMaxMaskBody {
  RowOperand x;
  RowOutput y;
  long long n;

  __device__ void operator()(const Sequences& sequences, long long b, long long i,
                             bool exists) const {
    constexpr int kAtOnce = 4;
    extern __shared__ float partial[];
    auto* first_of = reinterpret_cast<long long*>(partial);
    float* most_of = partial + 2 * blockDim.x * blockDim.y;
    const int place = threadIdx.y * blockDim.x + threadIdx.x;
    float most = -CUDART_INF_F;
    long long first = 0;
    const long long length = exists ? LengthOf(sequences, b) : 0;
    for (long long t = threadIdx.y; t < length; t += kAtOnce * blockDim.y) {
      float some[kAtOnce];
      LoadSteps(x, sequences, t, length, b, i, some);
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const long long u = t + k * blockDim.y;
        if (u >= length || some[k] <= most) continue;
        most = some[k];
        first = u;
      }
    }
    most_of[place] = most;
    first_of[place] = first;
    for (int half = blockDim.y / 2; half > 0; half /= 2) {
      __syncthreads();
      if (threadIdx.y >= half) continue;
      const int other = place + half * blockDim.x;
      const bool earlier = first_of[other] < first_of[place];
      if (most_of[other] < most_of[place] || (most_of[other] == most_of[place] && !earlier)) {
        continue;
      }
      most_of[place] = most_of[other];
      first_of[place] = first_of[other];
    }
    __syncthreads();
    first = first_of[threadIdx.x];
    if (exists) {
      for (long long t = threadIdx.y; t < sequences.steps; t += blockDim.y) {
        StoreOne(RowAddress(y, sequences, t, b), y.dtype, i, t < length && t == first ? 1 : 0);
      }
    }
    __syncthreads();  // before the next element is written
  }
};

template <typename Body>
__global__ void __launch_bounds__(1024) TimeKernel(Sequences sequences, Body body) {
  const long long elements = sequences.batch * body.n;
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  // The threads of a block go round equally often, since they wait for each other.
  for (long long begin = static_cast<long long>(blockIdx.x) * blockDim.x; begin < elements;
       begin += step) {
    const long long element = begin + threadIdx.x;
    const bool exists = element < elements;
    const long long b = exists ? Quotient(element, body.n) : 0;
    body(sequences, b, element - b * body.n, exists);
  }
}

// `bytes` of shared memory a thread.
template <typename Body>
void ForEachElement(const Body& body, size_t bytes, const OperatorContext& context) {
  const Sequences& sequences = context.sequences;
  const int64_t elements = sequences.batch * body.n;
  if (elements <= 0) return;
  const TimeShape shape = ShapeOver(elements, sequences.steps);
  TimeKernel<<<shape.blocks,
               dim3(static_cast<unsigned>(shape.lanes), static_cast<unsigned>(shape.parts)),
               bytes* static_cast<size_t>(shape.lanes * shape.parts), context.stream>>>(sequences,
                                                                                        body);
  TL_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void LaunchSequenceOperator(const OperatorCall& call, const OperatorContext& context) {
  const Sequences& sequences = context.sequences;
  const RowOperand& x = call.inputs[0].rows;
  const int64_t n = call.inputs[0].width;
  const auto histories = [&](int64_t delay, int64_t width, const auto& body) {
    const RowRange range{0, delay, false};
    ForEachRow({delay * sequences.batch, sequences.batch}, sequences, range, width, body,
               context.stream);
  };
  switch (call.op) {
    case Op::kSumTime:
      return ForEachElement(SumTimeBody{x, call.output, call.width, (call.width + 3) / 4},
                            sizeof(Four), context);
    case Op::kFirstMaxMask:
      if (sequences.steps == 0) return;
      return ForEachElement(FirstMaxMaskBody{x, call.output, call.width},
                            sizeof(float) + sizeof(long long), context);
    case Op::kFinal:
      return histories(x.delay, n, FinalBody{x, call.output, n});
    case Op::kFinalGrad: {
      const RowRange range{0, sequences.steps, true};
      return ForEachRow(SpaceOf(Domain::kStep, sequences, range), sequences, range, call.width,
                        FinalGradBody{x, call.output, call.width, call.attributes.size},
                        context.stream);
    }
    case Op::kFinalInitGrad: {
      const int64_t delay = call.attributes.size;
      return histories(delay, n / delay, FinalInitGradBody{x, call.output, n / delay, delay});
    }
    case Op::kInitGrad:
      return ForEachElement(InitGradBody{x, call.output, call.width, n}, sizeof(float), context);
    default:
      return;  // none of these, as RunSequenceOperator has checked
  }
}

}  // namespace turbolstm::cuda
