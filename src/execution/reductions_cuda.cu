// Sums over rows.

#include "execution/launch_cuda.h"
#include "execution/row_access_cuda.h"

namespace turbolstm::cuda {
namespace {

constexpr int kMostLanes = 32;
// Fills a device; what is added up in one pass is wider than what is left for a second.
constexpr int64_t kBlocks = 1024;
constexpr int kLanesOfSecondPass = 8;

int64_t TilesOf(int64_t width, int lanes) {
  return (width + 4 * lanes - 1) / (4 * lanes);
}

int LanesFor(int64_t width, int most) {
  return PowerOfTwoAtLeast((width + 3) / 4, most);
}

int64_t MostParts(int64_t width) {
  return std::max<int64_t>(1, kBlocks / TilesOf(width, LanesFor(width, kMostLanes)));
}

struct SumShape {
  int64_t parts = 1;
  int64_t rows_per_part = 0;
};

SumShape ShapeOver(int64_t rows, int64_t width) {
  constexpr int64_t kRowsWorthABlock = 128;
  const int64_t wanted = (rows + kRowsWorthABlock - 1) / kRowsWorthABlock;
  const int64_t parts = std::clamp<int64_t>(wanted, 1, MostParts(width));
  return {parts, (rows + parts - 1) / parts};
}

// Rows `first`, first + step, ... below `end`: where each of them begins; null for padding.
struct AnyRows {
  __device__ AnyRows(const RowOperand& operand, const Sequences& all, const RowRange& walked,
                     long long first, int stride)
      : x(operand), sequences(all), range(walked), cursor(first, stride, all.batch, all, walked) {}

  __device__ const char* Next() {
    const char* row = ReadRow(x, sequences, cursor.site);
    cursor.Advance(sequences, range);
    return row;
  }

  const RowOperand& x;
  const Sequences& sequences;
  const RowRange& range;
  RowCursor cursor;
};

// Step rows that lie one behind the other: an address is the last one's and a constant.
struct EvenRows {
  __device__ EvenRows(const RowOperand& x, const Sequences& all, const RowRange& range,
                      long long first, int stride)
      : data(x.data + (range.time_begin * all.batch + first) * x.row_bytes),
        step(stride * x.row_bytes),
        lengths(range.padded ? all.lengths : nullptr),
        batch(static_cast<int>(all.batch)) {
    if (!lengths) return;
    const Site site = SiteOf(first, all.batch, all, range);
    t = static_cast<int>(site.t);
    b = static_cast<int>(site.b);
    steps = stride / batch;
    sequences = stride % batch;
  }

  __device__ const char* Next() {
    const char* row = data;
    data += step;
    if (!lengths) return row;
    if (t >= lengths[b]) row = nullptr;
    t += steps;
    b += sequences;
    if (b >= batch) {
      b -= batch;
      ++t;
    }
    return row;
  }

  const char* data;
  long long step;
  const int* lengths;
  int batch;
  int t = 0;
  int b = 0;
  int steps = 0;  // a stride is so many steps and sequences
  int sequences = 0;
};

bool LieEvenly(const RowOperand& x, const Sequences& sequences, const RowRange& range) {
  constexpr int64_t kMost = (int64_t{1} << 31) - kBlockThreads;
  return x.data && x.delay == 0 && x.kind == RowKind::kStep &&
         range.time_begin + range.steps <= std::min<int64_t>(x.period, kMost) &&
         sequences.batch <= kMost;
}

// The sum of four columns over `rows`, which begin at row `first`.
template <typename Rows>
__device__ Four SumColumns(Rows rows, signed char dtype, long long first, long long end, int step,
                           long long column, long long width) {
  constexpr int kAtOnce = 4;
  Four sum;
  for (long long row = first; row < end; row += kAtOnce * step) {
    const char* at[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) at[k] = row + k * step < end ? rows.Next() : nullptr;
    Four some[kAtOnce];
    LoadFours(at, dtype, column, width, some);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) AddTo(&sum, some[k]);
  }
  return sum;
}

// y[part, :] = the sum of the rows of a part. A block has four columns a lane of one part.
template <typename Rows>
__global__ void __launch_bounds__(kBlockThreads)
    SumRowsKernel(Sequences sequences, RowRange range, long long rows, long long rows_per_part,
                  RowOperand x, long long width, long long tiles, float* y) {
  __shared__ Four partial[kBlockThreads];
  const long long part = blockIdx.x / tiles;
  const long long tile = blockIdx.x - part * tiles;
  const long long column = 4 * (tile * blockDim.x + threadIdx.x);
  const long long end = min(rows, (part + 1) * rows_per_part);
  Four sum;
  const long long first = part * rows_per_part + threadIdx.y;
  const int step = blockDim.y;
  if (column < width && first < end) {
    const Rows its_rows(x, sequences, range, first, step);
    sum = SumColumns(its_rows, x.dtype, first, end, step, column, width);
  }
  const int place = threadIdx.y * blockDim.x + threadIdx.x;
  partial[place] = sum;
  for (int half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) AddTo(&partial[place], partial[place + half * blockDim.x]);
  }
  if (threadIdx.y > 0 || column >= width) return;
  StoreFour(reinterpret_cast<char*>(y + part * width), static_cast<signed char>(DType::kFloat32),
            column, width, partial[place]);
}

void LaunchPass(const Sequences& sequences, const RowRange& range, int64_t rows,
                const SumShape& shape, int most_lanes, const WideOperand& x, float* y,
                cudaStream_t stream) {
  const int lanes = LanesFor(x.width, most_lanes);
  const int64_t tiles = TilesOf(x.width, lanes);
  const dim3 block(static_cast<unsigned>(lanes), static_cast<unsigned>(kBlockThreads / lanes));
  const auto kernel =
      LieEvenly(x.rows, sequences, range) ? SumRowsKernel<EvenRows> : SumRowsKernel<AnyRows>;
  kernel<<<static_cast<unsigned>(tiles * shape.parts), block, 0, stream>>>(
      sequences, range, rows, shape.rows_per_part, x.rows, x.width, tiles, y);
  TL_CUDA_CHECK(cudaGetLastError());
}

}  // namespace

int64_t SumRowsScratchBytes(int64_t width) {
  return width == 0 ? 0 : MostParts(width) * width * static_cast<int64_t>(sizeof(float));
}

void LaunchSumRows(const WideOperand& x, const RowRange& range, float* y, void* scratch,
                   const OperatorContext& context) {
  const int64_t rows = range.steps * context.sequences.batch;
  const SumShape shape = ShapeOver(rows, x.width);
  if (shape.parts == 1) {
    return LaunchPass(context.sequences, range, rows, shape, kMostLanes, x, y, context.stream);
  }
  auto* sums = static_cast<float*>(scratch);
  LaunchPass(context.sequences, range, rows, shape, kMostLanes, x, sums, context.stream);
  Sequences parts;
  parts.steps = 1;
  parts.batch = shape.parts;
  WideOperand partial{{}, x.width};
  partial.rows.data = static_cast<const char*>(scratch);
  partial.rows.row_bytes = x.width * static_cast<int64_t>(sizeof(float));
  partial.rows.kind = RowKind::kStep;
  LaunchPass(parts, {0, 1, false}, shape.parts, {1, shape.parts}, kLanesOfSecondPass, partial, y,
             context.stream);
}

}  // namespace turbolstm::cuda
