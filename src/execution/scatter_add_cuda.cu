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
  // Of a row that is no padding.
  __device__ const char* Address(Row row) const {
    const auto batch = static_cast<Row>(sequences.batch);
    return RowAddress(g, sequences, range.time_begin + row / batch, row % batch);
  }
  // The sum of four columns over the rows of sorted places [begin, end), in order.
  __device__ Four Sum(long long begin, long long end, long long column) const {
    Four sum;
    constexpr int kAtOnce = 8;
    for (long long place = begin; place < end; place += kAtOnce) {
      Row row[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) row[k] = row_of[min(place + k, end - 1)];
      const char* rows_at[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        rows_at[k] = place + k < end ? Address(row[k]) : nullptr;
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
// Runs of more rows are shared by the threads of a block.
constexpr int kShortRun = 32;

// A warp for each place at which a short run begins.
__global__ void __launch_bounds__(kBlockThreads) SumShortRunsKernel(SumTask task) {
  const long long place = static_cast<long long>(blockIdx.x) * kWarps + threadIdx.y;
  if (!task.Begins(place) || task.HasMore(place, kShortRun)) return;
  const int count = __popc(__ballot_sync(0xffffffffu, task.HasMore(place, threadIdx.x)));
  for (long long column = 4 * threadIdx.x; column < task.width; column += 4 * 32) {
    task.Store(place, column, task.Sum(place, place + count, column));
  }
}

// Of long runs, a block takes the columns of a few lanes, and each row of threads an equal part of
// the run.
constexpr int kLanes = 8;
constexpr int kParts = 64;
constexpr int kLongThreads = kLanes * kParts;
// Places that a block looks for the beginnings of long runs in.
constexpr int kPlaces = 128;
constexpr int kMostRuns = kPlaces / kShortRun;

__device__ void SumLongRun(const SumTask& task, long long begin, long long column,
                           Four (&partial)[kLongThreads]) {
  const long long end = task.EndOf(begin);
  const long long part = (end - begin + kParts - 1) / kParts;
  const long long part_begin = min(end, begin + threadIdx.y * part);
  const int place = threadIdx.y * kLanes + threadIdx.x;
  partial[place] =
      column < task.width ? task.Sum(part_begin, min(end, part_begin + part), column) : Four{};
  for (int half = kParts / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) AddTo(&partial[place], partial[place + half * kLanes]);
  }
  if (threadIdx.y == 0 && column < task.width) task.Store(begin, column, partial[place]);
}

__global__ void __launch_bounds__(kLongThreads) SumLongRunsKernel(SumTask task, long long tiles) {
  __shared__ Four partial[kLongThreads];
  __shared__ long long runs[kMostRuns];
  const long long window = blockIdx.x / tiles;
  const long long column = 4 * ((blockIdx.x - window * tiles) * kLanes + threadIdx.x);
  const int thread = threadIdx.y * kLanes + threadIdx.x;
  if (thread < kMostRuns) runs[thread] = -1;
  __syncthreads();
  const long long place = window * kPlaces + thread;
  if (thread < kPlaces && task.Begins(place) && task.HasMore(place, kShortRun)) {
    runs[thread / kShortRun] = place;  // no other can begin among so few places
  }
  __syncthreads();
  for (int run = 0; run < kMostRuns; ++run) {
    if (runs[run] < 0) continue;
    SumLongRun(task, runs[run], column, partial);
    __syncthreads();  // before the next one is written
  }
}

// The scratch memory of a sum: pairs of an entry and a row as they come, and sorted.
struct Order {
  Entry* entry_of;
  Entry* sorted_entry_of;
  Row* row_of;
  Row* sorted_row_of;
  void* sort;  // what sorting works in
};

Order OrderIn(void* scratch, int64_t rows) {
  auto* memory = static_cast<char*>(scratch);
  const auto take = [&] {
    return static_cast<void*>(
        std::exchange(memory, memory + Aligned(rows * static_cast<int64_t>(sizeof(Row)))));
  };
  Order order{};
  order.entry_of = static_cast<Entry*>(take());
  order.sorted_entry_of = static_cast<Entry*>(take());
  order.row_of = static_cast<Row*>(take());
  order.sorted_row_of = static_cast<Row*>(take());
  order.sort = memory;
  return order;
}

}  // namespace

int64_t ScatterAddScratchBytes(int64_t rows, int64_t entries) {
  if (rows == 0 || entries == 0) return 0;
  return 4 * Aligned(rows * static_cast<int64_t>(sizeof(Row))) +
         Aligned(static_cast<int64_t>(SortBytes(rows, entries)));
}

void LaunchOrderRows(const WideOperand& index, const RowRange& range, int64_t entries,
                     void* scratch, int32_t stage, const OperatorContext& context) {
  const int64_t rows = range.steps * context.sequences.batch;
  if (rows == 0 || entries == 0) return;
  const Order order = OrderIn(scratch, rows);
  const auto blocks = static_cast<unsigned>((rows + kBlockThreads - 1) / kBlockThreads);
  PairsKernel<<<blocks, kBlockThreads, 0, context.stream>>>(
      context.sequences, range, rows, index.rows, entries, stage, context.fault, order.entry_of,
      order.row_of);
  TL_CUDA_CHECK(cudaGetLastError());
  size_t sort_bytes = SortBytes(rows, entries);
  TL_CUDA_CHECK(cub::DeviceRadixSort::SortPairs(
      order.sort, sort_bytes, order.entry_of, order.sorted_entry_of, order.row_of,
      order.sorted_row_of, rows, 0, BitsFor(entries), context.stream));
}

void LaunchAddOrderedRows(const WideOperand& g, const RowRange& range, int64_t entries, float* y,
                          void* scratch, const OperatorContext& context) {
  const int64_t rows = range.steps * context.sequences.batch;
  const size_t table_bytes = static_cast<size_t>(entries * g.width) * sizeof(float);
  if (table_bytes > 0) TL_CUDA_CHECK(cudaMemsetAsync(y, 0, table_bytes, context.stream));
  if (rows == 0 || entries == 0 || g.width == 0) return;
  const Order order = OrderIn(scratch, rows);
  const SumTask task{
      context.sequences,   range, g.rows, g.width, entries, rows, order.sorted_entry_of,
      order.sorted_row_of, y};
  const int64_t windows = (rows + kPlaces - 1) / kPlaces;
  const int64_t tiles = (g.width + 4 * kLanes - 1) / (4 * kLanes);
  SumLongRunsKernel<<<static_cast<unsigned>(windows * tiles), dim3(kLanes, kParts), 0,
                      context.stream>>>(task, tiles);
  TL_CUDA_CHECK(cudaGetLastError());
  SumShortRunsKernel<<<static_cast<unsigned>((rows + kWarps - 1) / kWarps), dim3(32, kWarps), 0,
                       context.stream>>>(task);
  TL_CUDA_CHECK(cudaGetLastError());
}

}  // namespace turbolstm::cuda
