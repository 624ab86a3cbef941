// Operators that make a row of their result from one row of each operand.

#include <math_constants.h>

#include "base/philox.h"
#include "execution/launch_cuda.h"
#include "execution/row_access_cuda.h"

namespace turbolstm::cuda {
namespace {

// --- Operators whose elements do not depend on each other: threads share a row.

struct ConstantBody {
  RowOutput y;
  long long width;
  float value;

  __device__ void operator()(const Sequences& sequences, const Site& site) const {
    const float x = site.padding ? 0 : value;
    WriteRow(RowAddress(y, sequences, site.t, site.b), y.dtype, width, site, [&](long long) {
      return Four{{x, x, x, x}};
    });
  }
};

struct LengthsBody {
  RowOutput y;

  __device__ void operator()(const Sequences& sequences, const Site& site) const {
    StoreOne(RowAddress(y, sequences, site.t, site.b), y.dtype, 0,
             static_cast<float>(LengthOf(sequences, site.b)));
  }
};

// The four draws of a block of a RandomSite (base/philox.h).
__device__ uint4 PhiloxBlock(unsigned long long block, const RunNumbers& run, unsigned site) {
  uint4 counter = make_uint4(static_cast<unsigned>(block), static_cast<unsigned>(block >> 32),
                             run.training_step, site);
  uint2 key = make_uint2(static_cast<unsigned>(run.seed), static_cast<unsigned>(run.seed >> 32));
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    constexpr unsigned kA = 0xD2511F53u;
    constexpr unsigned kB = 0xCD9E8D57u;
    counter = make_uint4(__umulhi(kB, counter.z) ^ counter.y ^ key.x, kB * counter.z,
                         __umulhi(kA, counter.x) ^ counter.w ^ key.y, kA * counter.x);
    key.x += 0x9E3779B9u;
    key.y += 0xBB67AE85u;
  }
  return counter;
}

struct RandomMaskBody {
  RowOutput y;
  long long width;
  const RunNumbers* run;
  float bound;  // RandomSite::Bound
  float scale;
  float mean;
  unsigned site_number;
  bool steps;

  __device__ float Element(unsigned bits) const {
    return static_cast<float>(bits >> 8) * 0x1p-24f < bound ? scale : 0.0f;
  }

  // Draws index to index + 3.
  __device__ Four Draw(const RunNumbers& numbers, unsigned long long index) const {
    const uint4 low = PhiloxBlock(index / 4, numbers, site_number);
    const unsigned offset = static_cast<unsigned>(index % 4);
    if (offset == 0) return {{Element(low.x), Element(low.y), Element(low.z), Element(low.w)}};
    const uint4 high = PhiloxBlock(index / 4 + 1, numbers, site_number);
    if (offset == 1) return {{Element(low.y), Element(low.z), Element(low.w), Element(high.x)}};
    if (offset == 2) return {{Element(low.z), Element(low.w), Element(high.x), Element(high.y)}};
    return {{Element(low.w), Element(high.x), Element(high.y), Element(high.z)}};
  }

  __device__ void operator()(const Sequences& sequences, const Site& site) const {
    char* row = RowAddress(y, sequences, site.t, site.b);
    const RunNumbers numbers = *run;
    if (site.padding || !numbers.training) {
      const float x = site.padding ? 0 : mean;
      WriteRow(row, y.dtype, width, site, [&](long long) { return Four{{x, x, x, x}}; });
      return;
    }
    // Numbered as the caller's rows are, so that the layout does not change what is drawn.
    const long long number = NumberOf(sequences, site.b);
    const long long place = steps ? site.t * sequences.batch + number : number;
    WriteRow(row, y.dtype, width, site, [&](long long i) {
      return Draw(numbers, static_cast<unsigned long long>(place * width + i));
    });
  }
};

// y[i] = x[i - begin], zeros around it.
struct PadBody {
  RowOperand x;
  long long x_width;
  RowOutput y;
  long long width;
  long long begin;

  __device__ void operator()(const Sequences& sequences, const Site& site) const {
    const char* row = ReadRow(x, sequences, site);
    WriteRow(RowAddress(y, sequences, site.t, site.b), y.dtype, width, site,
             [&](long long i) { return LoadFour(row, x.dtype, i - begin, x_width); });
  }
};

struct SliceBody {
  RowOperand x;
  RowOutput y;
  long long width;
  long long begin;

  __device__ void operator()(const Sequences& sequences, const Site& site) const {
    CopyRow(ReadRow(x, sequences, site), x.dtype, begin, RowAddress(y, sequences, site.t, site.b),
            y.dtype, width, site);
  }
};

// As many operands of a concatenation as one launch takes.
struct ConcatBody {
  static constexpr int kMost = 24;
  RowOperand x[kMost];
  long long width[kMost];
  int count = 0;
  long long begin = 0;  // of the first of them in the result
  long long total = 0;
  RowOutput y;

  __device__ void operator()(const Sequences& sequences, const Site& site) const {
    char* row = RowAddress(y, sequences, site.t, site.b) + begin * ElementBytes(y.dtype);
    for (int k = 0; k < count; ++k) {
      CopyRow(ReadRow(x[k], sequences, site), x[k].dtype, 0, row, y.dtype, width[k], site);
      row += width[k] * ElementBytes(y.dtype);
    }
  }
};

struct GatherBody {
  RowOperand table;
  RowOperand index;
  RowOutput y;
  long long width;
  long long entries;
  int stage;
  IndexFault* fault;

  __device__ void operator()(const Sequences& sequences, const Site& site) const {
    const long long entry = ReadIndex(index, sequences, site, entries, stage, fault);
    const char* row =
        entry < 0 || !table.data ? nullptr : table.data + entry * width * ElementBytes(table.dtype);
    CopyRow(row, table.dtype, 0, RowAddress(y, sequences, site.t, site.b), y.dtype, width, site);
  }
};

struct OneHotBody {
  RowOperand index;
  RowOutput y;
  long long width;
  int stage;
  IndexFault* fault;

  __device__ void operator()(const Sequences& sequences, const Site& site) const {
    const long long hot = ReadIndex(index, sequences, site, width, stage, fault);
    WriteRow(RowAddress(y, sequences, site.t, site.b), y.dtype, width, site, [&](long long i) {
      Four x;
#pragma unroll
      for (int k = 0; k < 4; ++k) x.v[k] = i + k == hot ? 1.0f : 0.0f;
      return x;
    });
  }
};

void LaunchConcat(const OperatorCall& call, const RowSpace& space, const RowRange& range,
                  const OperatorContext& context) {
  ConcatBody body;
  body.y = call.output;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const WideOperand& x = call.inputs[i];
    body.x[body.count] = x.rows;
    body.width[body.count++] = x.width;
    body.total += x.width;
    if (body.count < ConcatBody::kMost && i + 1 < call.inputs.size()) continue;
    ForEachRow(space, context.sequences, range, body.total, body, context.stream);
    body.begin += body.total;
    body.total = 0;
    body.count = 0;
  }
}

// --- Operators that reduce a row: some threads of a warp, or all of a block, have it to
// themselves.

// The same in every thread of the group, added up in a fixed order.
template <int kLanes, typename Function>
__device__ float Combine(float x, Function combine) {
  // Rows that share a warp may go separate ways.
  constexpr unsigned kWarp = 0xffffffffu;
  constexpr int kGroup = kLanes < 32 ? kLanes : 32;
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  const unsigned group = (kWarp >> (32 - kGroup)) << (thread % 32 / kGroup * kGroup);
#pragma unroll
  for (int offset = kGroup / 2; offset > 0; offset /= 2) {
    x = combine(x, __shfl_xor_sync(group, x, offset));
  }
  if constexpr (kLanes > 32) {
    __shared__ float partial[kLanes / 32];
    __syncthreads();  // the last combination has been read
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
    __syncthreads();
    x = partial[0];
    for (int warp = 1; warp < kLanes / 32; ++warp) x = combine(x, partial[warp]);
  }
  return x;
}

template <int kLanes>
__device__ float SumOver(float x) {
  return Combine<kLanes>(x, [](float a, float b) { return a + b; });
}

template <int kLanes>
__device__ float MaxOver(float x) {
  return Combine<kLanes>(x, [](float a, float b) { return fmaxf(a, b); });
}

// The largest element, and the sum of exp(element - largest). A row that holds NaN or infinity has
// a sum of NaN, so that an overflow is seen.
struct ExpSum {
  float most;
  float sum;
};

template <int kLanes>
__device__ ExpSum SumExp(const char* row, signed char dtype, long long n, const Site& site) {
  float most = -CUDART_INF_F;
  float sum = 0;
  for (long long i = 4 * site.lane; i < n; i += 4 * site.lanes) {
    Four x = LoadFour(row, dtype, i, n);
    if (i + 4 > n) {
#pragma unroll
      for (int k = 0; k < 4; ++k) x.v[k] = i + k < n ? x.v[k] : -CUDART_INF_F;
    }
    const float larger = fmaxf(fmaxf(fmaxf(x.v[0], x.v[1]), fmaxf(x.v[2], x.v[3])), most);
    if (larger > most) {
      sum *= expf(most - larger);
      most = larger;
    }
    const float shift = most == -CUDART_INF_F ? 0 : most;  // nothing but -infinity so far
    sum += (expf(x.v[0] - shift) + expf(x.v[1] - shift)) +
           (expf(x.v[2] - shift) + expf(x.v[3] - shift));
  }
  const float all = MaxOver<kLanes>(most);
  return {all, SumOver<kLanes>(sum * expf(most - all))};
}

struct RowSumBody {
  RowOperand x;
  long long n;
  RowOutput y;

  template <int kLanes>
  __device__ void Run(const Sequences& sequences, const Site& site) const {
    const char* row = ReadRow(x, sequences, site);
    float sum = 0;
    for (long long i = 4 * site.lane; i < n; i += 4 * site.lanes) {
      const Four four = LoadFour(row, x.dtype, i, n);
      sum += (four.v[0] + four.v[1]) + (four.v[2] + four.v[3]);
    }
    sum = SumOver<kLanes>(sum);
    if (site.lane == 0) StoreOne(RowAddress(y, sequences, site.t, site.b), y.dtype, 0, sum);
  }
};

struct SoftmaxBody {
  RowOperand x;
  long long n;
  RowOutput y;

  template <int kLanes>
  __device__ void Run(const Sequences& sequences, const Site& site) const {
    char* result = RowAddress(y, sequences, site.t, site.b);
    if (site.padding) {
      WriteRow(result, y.dtype, n, site, [](long long) { return Four{}; });
      return;
    }
    const char* row = RowAddress(x, sequences, site.t, site.b);
    const ExpSum sum = SumExp<kLanes>(row, x.dtype, n, site);
    const float scale = 1.0f / sum.sum;
    WriteRow(result, y.dtype, n, site, [&](long long i) {
      Four four = LoadFour(row, x.dtype, i, n);
#pragma unroll
      for (int k = 0; k < 4; ++k) four.v[k] = expf(four.v[k] - sum.most) * scale;
      return four;
    });
  }
};

struct CrossEntropyBody {
  RowOperand x;
  long long n;
  RowOperand index;
  RowOutput y;
  int stage;
  IndexFault* fault;

  template <int kLanes>
  __device__ void Run(const Sequences& sequences, const Site& site) const {
    const long long target = ReadIndex(index, sequences, site, n, stage, fault);
    float loss = 0;
    if (target >= 0) {
      const char* row = RowAddress(x, sequences, site.t, site.b);
      const ExpSum sum = SumExp<kLanes>(row, x.dtype, n, site);
      loss = logf(sum.sum) + (sum.most - (row ? LoadOne(row, x.dtype, target) : 0.0f));
    }
    if (site.lane == 0) StoreOne(RowAddress(y, sequences, site.t, site.b), y.dtype, 0, loss);
  }
};

template <int kLanes, int kRows, typename Body>
__global__ void __launch_bounds__(kLanes* kRows)
    ReduceKernel(Sequences sequences, RowRange range, long long rows, long long batch, Body body) {
  const long long step = static_cast<long long>(gridDim.x) * kRows;
  for (long long row = static_cast<long long>(blockIdx.x) * kRows + threadIdx.y; row < rows;
       row += step) {
    Site site = SiteOf(row, batch, sequences, range);
    site.lane = threadIdx.x;
    site.lanes = kLanes;
    body.template Run<kLanes>(sequences, site);
  }
}

template <typename Body>
void ReduceEachRow(const RowSpace& space, int64_t width, const RowRange& range, const Body& body,
                   const OperatorContext& context) {
  if (space.rows <= 0) return;
  const auto launch = [&]<int kLanes, int kRows>() {
    ReduceKernel<kLanes, kRows>
        <<<GridFor(space.rows, kRows), dim3(kLanes, kRows), 0, context.stream>>>(
            context.sequences, range, space.rows, space.batch, body);
    TL_CUDA_CHECK(cudaGetLastError());
  };
  constexpr int64_t kFewElements = 32;
  constexpr int64_t kManyElements = 1024;
  if (width <= kFewElements) return launch.template operator()<4, kBlockThreads / 4>();
  if (width <= kManyElements) return launch.template operator()<32, kBlockThreads / 32>();
  launch.template operator()<512, 1>();
}

// --- The number of rows.

__global__ void RowCountKernel(Sequences sequences, bool steps, RowOutput y) {
  __shared__ long long partial[kBlockThreads];
  long long count = 0;
  if (!steps) {
    if (threadIdx.x == 0) count = sequences.batch;
  } else {
    for (long long b = threadIdx.x; b < sequences.batch; b += kBlockThreads) {
      count += LengthOf(sequences, b);
    }
  }
  partial[threadIdx.x] = count;
  for (int half = kBlockThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
  }
  if (threadIdx.x == 0) StoreOne(y.data, y.dtype, 0, static_cast<float>(partial[0]));
}

void LaunchRowCount(const OperatorCall& call, const OperatorContext& context) {
  RowCountKernel<<<1, kBlockThreads, 0, context.stream>>>(
      context.sequences, call.attributes.domain != Domain::kBatch, call.output);
  TL_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

void LaunchRowOperator(const OperatorCall& call, const RowRange& range,
                       const OperatorContext& context) {
  const RowSpace space = SpaceOf(call.domain, context.sequences, range);
  const Attributes& a = call.attributes;
  const long long width = call.width;
  const auto operand = [&](size_t i) { return call.inputs[i].rows; };
  const auto run = [&](const auto& body) {
    ForEachRow(space, context.sequences, range, width, body, context.stream);
  };
  const auto reduce = [&](const auto& body) {
    ReduceEachRow(space, call.inputs[0].width, range, body, context);
  };
  switch (call.op) {
    case Op::kConstant:
      return run(ConstantBody{call.output, width, static_cast<float>(a.number)});
    case Op::kLengths:
      return run(LengthsBody{call.output});
    case Op::kRowCount:
      return LaunchRowCount(call, context);
    case Op::kRandomMask:
      return run(RandomMaskBody{call.output, width, context.run, RandomSite::Bound(a.number),
                                static_cast<float>(a.scale), static_cast<float>(a.mean),
                                static_cast<unsigned>(a.site), call.domain == Domain::kStep});
    case Op::kPad:
      return run(PadBody{operand(0), call.inputs[0].width, call.output, width, a.begin});
    case Op::kSlice:
      return run(SliceBody{operand(0), call.output, width, a.begin});
    case Op::kConcat:
      return LaunchConcat(call, space, range, context);
    case Op::kGather:
      return run(GatherBody{operand(0), operand(1), call.output, width, a.size, call.stage,
                            context.fault});
    case Op::kOneHot:
      return run(OneHotBody{operand(0), call.output, width, call.stage, context.fault});
    case Op::kRowSum:
      return reduce(RowSumBody{operand(0), call.inputs[0].width, call.output});
    case Op::kSoftmax:
      if (width > 0) reduce(SoftmaxBody{operand(0), width, call.output});
      return;
    case Op::kCrossEntropy:
      return reduce(CrossEntropyBody{operand(0), call.inputs[0].width, operand(1), call.output,
                                     call.stage, context.fault});
    default:
      return;  // none of these, as RunRowOperator has checked
  }
}

}  // namespace turbolstm::cuda
