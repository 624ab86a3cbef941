// Copies that gather, convert and transpose.

#include "execution/launch_cuda.h"
#include "execution/row_access_cuda.h"

namespace turbolstm::cuda {
namespace {

struct GatherRowsBody {
  RowOperand x;
  long long width;
  char* y;  // the row of the first step of the range
  long long time_begin;
  signed char dtype;

  __device__ void operator()(const Sequences& sequences, const Site& site) const {
    const long long row = (site.t - time_begin) * sequences.batch + site.b;
    CopyRow(ReadRow(x, sequences, site), x.dtype, 0, y + row * width * ElementBytes(dtype), dtype,
            width, site);
  }
};

constexpr int kTile = 32;
constexpr int kTileRows = 8;  // of threads

__global__ void __launch_bounds__(kTile* kTileRows)
    TransposeKernel(const float* x, float* y, long long matrices, long long rows,
                    long long columns) {
  __shared__ float tile[kTile][kTile + 1];  // one more, or a column would lie in one bank
  const long long row_tiles = (rows + kTile - 1) / kTile;
  const long long column_tiles = (columns + kTile - 1) / kTile;
  for (long long k = blockIdx.x; k < matrices * row_tiles * column_tiles; k += gridDim.x) {
    const long long matrix = k / (row_tiles * column_tiles);
    const long long row = k / column_tiles % row_tiles * kTile;
    const long long column = k % column_tiles * kTile;
    const long long base = matrix * rows * columns;
#pragma unroll
    for (int i = threadIdx.y; i < kTile; i += kTileRows) {
      if (row + i >= rows || column + threadIdx.x >= columns) continue;
      tile[i][threadIdx.x] = x[base + (row + i) * columns + column + threadIdx.x];
    }
    __syncthreads();
#pragma unroll
    for (int i = threadIdx.y; i < kTile; i += kTileRows) {
      if (column + i >= columns || row + threadIdx.x >= rows) continue;
      y[base + (column + i) * rows + row + threadIdx.x] = tile[threadIdx.x][i];
    }
    __syncthreads();
  }
}

}  // namespace

void LaunchGatherRows(const WideOperand& x, const RowRange& range, DType dtype, void* y,
                      const OperatorContext& context) {
  GatherRowsBody body{x.rows, x.width, static_cast<char*>(y), range.time_begin,
                      static_cast<signed char>(dtype)};
  CopyAsBits(&body.x.dtype, &body.dtype);
  ForEachRow(SpaceOf(Domain::kStep, context.sequences, range), context.sequences, range, x.width,
             body, context.stream);
}

// One row is shared by as many blocks as fill the device; what lies beyond is a loop's.
void LaunchConvert(const void* x, DType from, void* y, DType to, int64_t count,
                   cudaStream_t stream) {
  GatherRowsBody body{{}, count, static_cast<char*>(y), 0, static_cast<signed char>(to)};
  body.x.data = static_cast<const char*>(x);
  body.x.dtype = static_cast<signed char>(from);
  CopyAsBits(&body.x.dtype, &body.dtype);
  ForEachRow({1, 1}, {}, {}, count, body, stream);
}

void CopyStatic(const float* x, float* y, int64_t count, cudaStream_t stream) {
  LaunchConvert(x, DType::kFloat32, y, DType::kFloat32, count, stream);
}

void TransposeStatic(const float* x, float* y, int64_t matrices, int64_t rows, int64_t columns,
                     cudaStream_t stream) {
  const int64_t tiles = matrices * ((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile);
  if (tiles <= 0) return;
  TransposeKernel<<<GridFor(tiles, 1), dim3(kTile, kTileRows), 0, stream>>>(x, y, matrices, rows,
                                                                            columns);
  TL_CUDA_CHECK(cudaGetLastError());
}

}  // namespace turbolstm::cuda
