// Adds rows to the entries of a table. Rows are sorted by entry, so that every entry is added up by
// threads of one block, in a fixed order, without atomics.

#include <cub/device/device_radix_sort.cuh>
#include <utility>

#include "execution/launch_cuda.h"
#include "execution/row_access_cuda.h"

namespace turbolstm::cuda {
namespace {

using Entry = unsigned;  // `entries` itself stands for rows that are left out, and sorts last
using Row = unsigned;

// Parts of the scratch memory. Each begins at a multiple of this.
constexpr int64_t kAlignment = 256;

int64_t Aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

int BitsFor(int64_t entries) {
  int bits = 1;
  while ((entries >> bits) != 0) ++bits;
  return bits;
}

size_t SortBytes(int64_t rows, int64_t entries) {
  size_t bytes = 0;
  TL_CUDA_CHECK(cub::DeviceRadixSort::SortPairs(
      nullptr, bytes, static_cast<const Entry*>(nullptr), static_cast<Entry*>(nullptr),
      static_cast<const Row*>(nullptr), static_cast<Row*>(nullptr), rows, 0, BitsFor(entries)));
  return bytes;
}

// A pair a thread.
__global__ void __launch_bounds__(kBlockThreads)
    PairsKernel(Sequences sequences, RowRange range, long long rows, RowOperand index,
                long long entries, int stage, IndexFault* fault, Entry* entry_of, Row* row_of) {
  const long long row = static_cast<long long>(blockIdx.x) * kBlockThreads + threadIdx.x;
  if (row >= rows) return;
  const Site site = SiteOf(row, sequences.batch, sequences, range);
  const long long entry = ReadIndex(index, sequences, site, entries, stage, fault);
  entry_of[row] = static_cast<Entry>(entry < 0 ? entries : entry);
  row_of[row] = static_cast<Row>(row);
}

struct SumTask {
  Sequences sequences;
  RowRange range;
  RowOperand g;
  long long width;
  long long entries;
  long long rows;
  const Entry* entry_of;  // sorted
  const Row* row_of;
  float* y;

  __device__ bool Begins(long long place) const {
    return place < rows && entry_of[place] < entries &&
           (place == 0 || entry_of[place - 1] != entry_of[place]);
  }
  // Whether the run of equal entries that begins at a place has more than `count` rows.
  __device__ bool HasMore(long long place, long long count) const {
    return place + count < rows && entry_of[place + count] == entry_of[place];
  }
  // Behind the last row of a run.
  __device__ long long EndOf(long long place) const {
    long long low = place, high = rows;  // the entry is still the same at low
    while (high - low > 1) {
      const long long middle = low + (high - low) / 2;
      (entry_of[middle] == entry_of[place] ? low : high) = middle;
    }
    return high;
  }
  __device__ const char* RowOf(long long place) const {
    return ReadRow(g, sequences, SiteOf(row_of[place], sequences.batch, sequences, range));
  }
  // The sum of four columns over the rows of sorted places [begin, end), in order.
  __device__ Four Sum(long long begin, long long end, long long column) const {
    Four sum;
    constexpr int kAtOnce = 8;
    for (long long place = begin; place < end; place += kAtOnce) {
      const char* rows_at[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        rows_at[k] = place + k < end ? RowOf(place + k) : nullptr;
      }
      Four some[kAtOnce];
      LoadFours(rows_at, g.dtype, column, width, some);
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) AddTo(&sum, some[k]);
    }
    return sum;
  }
  __device__ void Store(long long place, long long column, const Four& sum) const {
    StoreFour(reinterpret_cast<char*>(y + entry_of[place] * width),
              static_cast<signed char>(DType::kFloat32), column, width, sum);
  }
};

constexpr int kWarps = kBlockThreads / 32;
// Longer runs are shared by the warps of a block.
constexpr int kShortRun = 32;

// A warp for each place at which a short run begins.
__device__ void SumShortRun(const SumTask& task, long long place) {
  if (!task.Begins(place) || task.HasMore(place, kShortRun)) return;
  const int count = __popc(__ballot_sync(0xffffffffu, task.HasMore(place, threadIdx.x)));
  for (long long column = 4 * threadIdx.x; column < task.width; column += 4 * 32) {
    task.Store(place, column, task.Sum(place, place + count, column));
  }
}

// A block for the long run that begins among kShortRun places, if one does: there is room for one
// only. Each warp adds up an equal part of it, and the parts are added in order.
__device__ void SumLongRun(const SumTask& task, long long first_place) {
  __shared__ long long found;
  __shared__ Four partial[kWarps][32];
  const int thread = threadIdx.y * 32 + threadIdx.x;
  if (thread == 0) found = -1;
  __syncthreads();
  if (thread < kShortRun && task.Begins(first_place + thread) &&
      task.HasMore(first_place + thread, kShortRun)) {
    found = first_place + thread;
  }
  __syncthreads();
  const long long begin = found;
  if (begin < 0) return;
  const long long end = task.EndOf(begin);
  const long long part = (end - begin + kWarps - 1) / kWarps;
  const long long part_begin = min(end, begin + threadIdx.y * part);
  const long long part_end = min(end, part_begin + part);
  for (long long base = 0; base < task.width; base += 4 * 32) {
    const long long column = base + 4 * threadIdx.x;
    __syncthreads();  // the last columns have been read
    if (column < task.width) {
      partial[threadIdx.y][threadIdx.x] = task.Sum(part_begin, part_end, column);
    }
    __syncthreads();
    if (threadIdx.y > 0 || column >= task.width) continue;
    Four sum = partial[0][threadIdx.x];
    for (int warp = 1; warp < kWarps; ++warp) AddTo(&sum, partial[warp][threadIdx.x]);
    task.Store(begin, column, sum);
  }
}

// The first blocks take long runs, so that those begin first.
__global__ void __launch_bounds__(kBlockThreads)
    SumRunsKernel(SumTask task, long long long_blocks) {
  if (blockIdx.x < long_blocks) {
    SumLongRun(task, static_cast<long long>(blockIdx.x) * kShortRun);
  } else {
    SumShortRun(task, (blockIdx.x - long_blocks) * kWarps + threadIdx.y);
  }
}

}  // namespace

int64_t ScatterAddScratchBytes(int64_t rows, int64_t entries) {
  if (rows == 0 || entries == 0) return 0;
  return 4 * Aligned(rows * static_cast<int64_t>(sizeof(Row))) +
         Aligned(static_cast<int64_t>(SortBytes(rows, entries)));
}

void LaunchScatterAdd(const WideOperand& index, const WideOperand& g, const RowRange& range,
                      int64_t entries, float* y, void* scratch, int32_t stage,
                      const OperatorContext& context) {
  const int64_t rows = range.steps * context.sequences.batch;
  const size_t table_bytes = static_cast<size_t>(entries * g.width) * sizeof(float);
  if (table_bytes > 0) TL_CUDA_CHECK(cudaMemsetAsync(y, 0, table_bytes, context.stream));
  if (rows == 0 || entries == 0) return;

  auto* memory = static_cast<char*>(scratch);
  const auto take = [&memory](int64_t bytes) {
    return static_cast<void*>(std::exchange(memory, memory + Aligned(bytes)));
  };
  const int64_t bytes = rows * static_cast<int64_t>(sizeof(Row));
  auto* entry_of = static_cast<Entry*>(take(bytes));
  auto* sorted_entry_of = static_cast<Entry*>(take(bytes));
  auto* row_of = static_cast<Row*>(take(bytes));
  auto* sorted_row_of = static_cast<Row*>(take(bytes));

  const auto blocks = static_cast<unsigned>((rows + kBlockThreads - 1) / kBlockThreads);
  PairsKernel<<<blocks, kBlockThreads, 0, context.stream>>>(
      context.sequences, range, rows, index.rows, entries, stage, context.fault, entry_of, row_of);
  TL_CUDA_CHECK(cudaGetLastError());
  size_t sort_bytes = SortBytes(rows, entries);
  TL_CUDA_CHECK(cub::DeviceRadixSort::SortPairs(memory, sort_bytes, entry_of, sorted_entry_of,
                                                row_of, sorted_row_of, rows, 0, BitsFor(entries),
                                                context.stream));
  if (g.width == 0) return;
  const SumTask task{context.sequences, range,         g.rows, g.width, entries, rows,
                     sorted_entry_of,   sorted_row_of, y};
  const int64_t long_blocks = (rows + kShortRun - 1) / kShortRun;
  const int64_t short_blocks = (rows + kWarps - 1) / kWarps;
  SumRunsKernel<<<static_cast<unsigned>(long_blocks + short_blocks), dim3(32, kWarps), 0,
                  context.stream>>>(task, long_blocks);
  TL_CUDA_CHECK(cudaGetLastError());
}

}  // namespace turbolstm::cuda
