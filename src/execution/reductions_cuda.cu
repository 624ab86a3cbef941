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

// The sum of four columns over rows `first`, first + step, ... below `end`.
__device__ Four SumColumns(const Sequences& sequences, const RowRange& range, const RowOperand& x,
                           long long first, long long end, int step, long long column,
                           long long width) {
  constexpr int kAtOnce = 4;
  Four sum;
  for (long long row = first; row < end; row += kAtOnce * step) {
    const char* rows[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const long long r = row + k * step;
      rows[k] =
          r < end ? ReadRow(x, sequences, SiteOf(r, sequences.batch, sequences, range)) : nullptr;
    }
    Four some[kAtOnce];
    LoadFours(rows, x.dtype, column, width, some);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) AddTo(&sum, some[k]);
  }
  return sum;
}

// y[part, :] = the sum of the rows of a part. A block has four columns a lane of one part.
__global__ void __launch_bounds__(kBlockThreads)
    SumRowsKernel(Sequences sequences, RowRange range, long long rows, long long rows_per_part,
                  RowOperand x, long long width, long long tiles, float* y) {
  __shared__ Four partial[kBlockThreads];
  const long long part = blockIdx.x / tiles;
  const long long tile = blockIdx.x - part * tiles;
  const long long column = 4 * (tile * blockDim.x + threadIdx.x);
  const long long end = min(rows, (part + 1) * rows_per_part);
  Four sum;
  if (column < width) {
    sum = SumColumns(sequences, range, x, part * rows_per_part + threadIdx.y, end, blockDim.y,
                     column, width);
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
  SumRowsKernel<<<static_cast<unsigned>(tiles * shape.parts), block, 0, stream>>>(
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
  partial.rows.kind = RowKind::kBatch;
  LaunchPass(parts, {0, 1, false}, shape.parts, {1, shape.parts}, kLanesOfSecondPass, partial, y,
             context.stream);
}

}  // namespace turbolstm::cuda
