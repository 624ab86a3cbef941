// How long operators take in recorded graphs, and the memory traffic that this is.

#include <benchmark/benchmark.h>

#include <cmath>
#include <random>
#include <vector>

#include "backend/cuda/check_cuda.h"
#include "backend/cuda/runtime_cuda.h"
#include "backend/cuda/testing/time_replays.h"
#include "execution/operators_cuda.h"

namespace turbolstm::cuda {
namespace {

constexpr int64_t kSteps = 400;
constexpr int64_t kBatch = 64;

// Rows of a network's values: [kSteps, kBatch, n], all valid.
class Memory {
 public:
  Memory() {
    context.sequences.steps = kSteps;
    context.sequences.batch = kBatch;
    context.stream = stream.get();
    context.run = reinterpret_cast<const RunNumbers*>(Zeros(sizeof(RunNumbers)));
    context.fault = reinterpret_cast<IndexFault*>(Zeros(sizeof(IndexFault)));
  }

  char* Zeros(int64_t bytes) {
    buffers_.emplace_back(static_cast<size_t>(bytes), "benchmark");
    TL_CUDA_CHECK(cudaMemset(buffers_.back().data(), 0, static_cast<size_t>(bytes)));
    return reinterpret_cast<char*>(buffers_.back().data());
  }
  WideOperand Steps(int64_t n, DType dtype) {
    const auto row_bytes = n * static_cast<int64_t>(SizeOf(dtype));
    WideOperand x{{}, n};
    x.rows.data = Zeros(kSteps * kBatch * row_bytes);
    x.rows.row_bytes = row_bytes;
    x.rows.period = kSteps;
    x.rows.kind = RowKind::kStep;
    x.rows.dtype = static_cast<signed char>(dtype);
    return x;
  }
  // A few words are frequent, as in any text: the k-th has a share of about 1 / k.
  WideOperand Words(int64_t entries) {
    std::mt19937 random(1);
    std::uniform_real_distribution<double> uniform(0, 1);
    std::vector<int32_t> words;
    for (int64_t i = 0; i < kSteps * kBatch; ++i) {
      words.push_back(
          static_cast<int32_t>(std::pow(static_cast<double>(entries), uniform(random)) - 1));
    }
    const WideOperand x = Steps(1, DType::kInt32);
    TL_CUDA_CHECK(cudaMemcpy(const_cast<char*>(x.rows.data), words.data(), words.size() * 4,
                             cudaMemcpyHostToDevice));
    return x;
  }
  RowOutput Output(const WideOperand& x) {
    RowOutput y;
    y.data = const_cast<char*>(x.rows.data);
    y.row_bytes = x.rows.row_bytes;
    y.period = kSteps;
    y.kind = x.rows.kind;
    y.dtype = x.rows.dtype;
    return y;
  }

  Stream stream;
  OperatorContext context;

 private:
  std::vector<DeviceBuffer> buffers_;
};

template <typename Enqueue>
void Time(benchmark::State& state, const Memory& memory, int64_t bytes, Enqueue enqueue) {
  constexpr int kRuns = 20;
  TimeReplays(state, memory.stream, kRuns, enqueue);
  state.SetBytesProcessed(state.iterations() * bytes);
}

OperatorCall Call(Op op, std::vector<WideOperand> inputs, RowOutput output, int64_t width) {
  OperatorCall call;
  call.op = op;
  call.domain = Domain::kStep;
  call.inputs = std::move(inputs);
  call.output = output;
  call.width = width;
  return call;
}

constexpr RowRange kAll{0, kSteps, true};
constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16};

// An operator from one step value to another of the same width.
void BenchRowOperator(benchmark::State& state, Op op) {
  Memory memory;
  const int64_t n = state.range(0);
  const WideOperand x = memory.Steps(n, kTypes[state.range(1)]);
  const WideOperand y = memory.Steps(n, kTypes[state.range(1)]);
  OperatorCall call = Call(op, {x}, memory.Output(y), n);
  if (op == Op::kRandomMask) call.inputs.clear();
  Time(state, memory,
       kSteps * kBatch * (x.rows.row_bytes * std::ssize(call.inputs) + y.rows.row_bytes),
       [&] { RunRowOperator(call, kAll, memory.context); });
}
BENCHMARK_CAPTURE(BenchRowOperator, slice, Op::kSlice)
    ->ArgsProduct({{1, 128, 2048}, {0, 1}})
    ->UseManualTime();
BENCHMARK_CAPTURE(BenchRowOperator, random_mask, Op::kRandomMask)
    ->ArgsProduct({{128, 2048}, {0, 1}})
    ->UseManualTime();
BENCHMARK_CAPTURE(BenchRowOperator, softmax, Op::kSoftmax)
    ->ArgsProduct({{2, 512, 20000}, {0, 1}})
    ->UseManualTime();

void BenchCrossEntropy(benchmark::State& state) {
  Memory memory;
  const int64_t n = state.range(0);
  const WideOperand x = memory.Steps(n, kTypes[state.range(1)]);
  const WideOperand y = memory.Steps(1, DType::kFloat32);
  const OperatorCall call =
      Call(Op::kCrossEntropy, {x, memory.Steps(1, DType::kInt32)}, memory.Output(y), 1);
  Time(state, memory, kSteps * kBatch * x.rows.row_bytes,
       [&] { RunRowOperator(call, kAll, memory.context); });
}
BENCHMARK(BenchCrossEntropy)->ArgsProduct({{2, 20000}, {0, 1}})->UseManualTime();

void BenchGather(benchmark::State& state) {
  Memory memory;
  const int64_t n = state.range(0), entries = 20000;
  WideOperand table{{}, entries * n};
  table.rows.data = memory.Zeros(entries * n * 4);
  const WideOperand y = memory.Steps(n, DType::kFloat32);
  OperatorCall call = Call(Op::kGather, {table, memory.Words(entries)}, memory.Output(y), n);
  call.attributes.size = entries;
  Time(state, memory, 2 * kSteps * kBatch * y.rows.row_bytes,
       [&] { RunRowOperator(call, kAll, memory.context); });
}
BENCHMARK(BenchGather)->Arg(128)->Arg(1024)->UseManualTime();

void BenchScatterAdd(benchmark::State& state) {
  Memory memory;
  const int64_t n = state.range(0), entries = state.range(1);
  const WideOperand g = memory.Steps(n, DType::kFloat32);
  const WideOperand words = memory.Words(entries);
  auto* y = reinterpret_cast<float*>(memory.Zeros(entries * n * 4));
  char* scratch = memory.Zeros(ScatterAddScratchBytes(kSteps * kBatch, entries));
  Time(state, memory, kSteps * kBatch * g.rows.row_bytes + entries * n * 4,
       [&] { ScatterAdd(words, g, kAll, entries, y, scratch, 0, memory.context); });
}
BENCHMARK(BenchScatterAdd)->ArgsProduct({{128, 1024}, {2, 20000}})->UseManualTime();

void BenchSumTime(benchmark::State& state) {
  Memory memory;
  const WideOperand x = memory.Steps(state.range(0), kTypes[state.range(1)]);
  RowOutput y = memory.Output(memory.Steps(state.range(0), DType::kFloat32));
  y.kind = RowKind::kBatch;
  const OperatorCall call = Call(Op::kSumTime, {x}, y, state.range(0));
  Time(state, memory, kSteps * kBatch * x.rows.row_bytes,
       [&] { RunSequenceOperator(call, memory.context); });
}
BENCHMARK(BenchSumTime)->ArgsProduct({{1, 128, 2048}, {0, 1}})->UseManualTime();

void BenchSumRows(benchmark::State& state) {
  Memory memory;
  const WideOperand x = memory.Steps(state.range(0), kTypes[state.range(1)]);
  auto* y = reinterpret_cast<float*>(memory.Zeros(state.range(0) * 4));
  char* scratch = memory.Zeros(SumRowsScratchBytes(state.range(0)));
  Time(state, memory, kSteps * kBatch * x.rows.row_bytes,
       [&] { SumRows(x, kAll, y, scratch, memory.context); });
}
BENCHMARK(BenchSumRows)->ArgsProduct({{1, 128, 512, 8192}, {0, 1}})->UseManualTime();

void BenchGatherRows(benchmark::State& state) {
  Memory memory;
  WideOperand x = memory.Steps(state.range(0), kTypes[state.range(1)]);
  x.rows.delay = 1;
  const WideOperand y = memory.Steps(state.range(0), DType::kBFloat16);
  Time(state, memory, kSteps * kBatch * (x.rows.row_bytes + y.rows.row_bytes), [&] {
    GatherRows(x, kAll, DType::kBFloat16, const_cast<char*>(y.rows.data), memory.context);
  });
}
BENCHMARK(BenchGatherRows)->ArgsProduct({{128, 2048}, {0, 1}})->UseManualTime();

void BenchTranspose(benchmark::State& state) {
  Memory memory;
  const int64_t n = state.range(0);
  const auto* x = reinterpret_cast<const float*>(memory.Zeros(n * n * 4));
  auto* y = reinterpret_cast<float*>(memory.Zeros(n * n * 4));
  Time(state, memory, 2 * n * n * 4,
       [&] { TransposeStatic(x, y, 1, n, n, memory.context.stream); });
}
BENCHMARK(BenchTranspose)->Arg(512)->Arg(8192)->UseManualTime();

}  // namespace
}  // namespace turbolstm::cuda
