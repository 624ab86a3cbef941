// Fused kernels on a device: one time step in a recorded graph, all steps at once, a loop over
// time.

#include <benchmark/benchmark.h>

#include <array>
#include <vector>

#include "backend/cuda/check_cuda.h"
#include "backend/cuda/runtime_cuda.h"
#include "backend/cuda/testing/time_replays.h"
#include "base/error.h"
#include "ops/pointwise/kernel_cuda.h"
#include "ops/pointwise/testing/typed_samples_cuda.h"

namespace turbolstm::cuda {
namespace {

constexpr int kLaunches = 200;

// A program over [steps * batch, n] with all of its values in memory of one type.
class Rows {
 public:
  Rows(TypedProgram typed, int64_t steps, int64_t batch, int64_t n) : typed_(std::move(typed)) {
    UseDevice(0);
    kernel_ = CompilePointwise(std::span(&typed_, 1))[0];
    const auto size = [](DType dtype) { return static_cast<int64_t>(SizeOf(dtype)); };
    for (const DType dtype : typed_.inputs) {
      memory_.push_back(Zeros(steps * batch * n * size(dtype)));
      inputs_.push_back({.data = reinterpret_cast<char*>(memory_.back().data()),
                         .row_bytes = n * size(dtype),
                         .period = steps,
                         .kind = RowKind::kStep,
                         .dtype = static_cast<signed char>(dtype)});
      bytes_ += static_cast<int64_t>(memory_.back().size());
    }
    for (const DType dtype : typed_.outputs) {
      memory_.push_back(Zeros(steps * batch * n * size(dtype)));
      outputs_.push_back({.data = reinterpret_cast<char*>(memory_.back().data()),
                          .row_bytes = n * size(dtype),
                          .period = steps,
                          .dtype = static_cast<signed char>(dtype)});
      bytes_ += static_cast<int64_t>(memory_.back().size());
    }
    run_.sequences = {.steps = steps, .batch = batch};
    run_.range = {0, steps, false};
    run_.n = n;
    run_.inputs = inputs_;
    run_.outputs = outputs_;
    run_.follows_kernel = true;
  }

  PointwiseRun& run() { return run_; }
  RowOperand& input(size_t i) { return inputs_[i]; }

  void Measure(benchmark::State& state, int launches) {
    const Stream stream;
    TimeReplays(state, stream, launches, [&] { kernel_.Launch(run_, stream.get()); });
    state.counters["GB/s"] = benchmark::Counter(static_cast<double>(bytes_) * 1e-9,
                                                benchmark::Counter::kIsIterationInvariantRate);
  }

 private:
  static DeviceBuffer Zeros(int64_t bytes) {
    DeviceBuffer buffer(static_cast<size_t>(bytes), "a benchmark");
    TL_CUDA_CHECK(cudaMemset(buffer.data(), 0, buffer.size()));
    return buffer;
  }

  TypedProgram typed_;
  PointwiseKernel kernel_;
  std::vector<DeviceBuffer> memory_;
  std::vector<RowOperand> inputs_;
  std::vector<RowOutput> outputs_;
  PointwiseRun run_;
  int64_t bytes_ = 0;
};

TypedProgram OfOneType(const PointwiseProgram& program, DType dtype, bool time_loop = false) {
  return {program, std::vector<DType>(program.inputs.size(), dtype),
          std::vector<DType>(program.outputs.size(), dtype), time_loop};
}

// Skips where no device answers.
template <typename Function>
void OnDevice(benchmark::State& state, Function&& function) {
  try {
    function();
  } catch (const Error& error) {
    state.SkipWithError(error.what());
  }
}

PointwiseProgram Copy() {
  return {{InputKind::kElement}, {}, {}, {0}};
}

void BM_LstmStep(benchmark::State& state, const PointwiseProgram& program, DType dtype) {
  OnDevice(state, [&] {
    Rows rows(OfOneType(program, dtype), 1, state.range(0), state.range(1));
    rows.Measure(state, kLaunches);
  });
}

void BM_AllSteps(benchmark::State& state, const PointwiseProgram& program, DType dtype) {
  OnDevice(state, [&] {
    Rows rows(OfOneType(program, dtype), state.range(0), state.range(1), state.range(2));
    rows.Measure(state, 4);
  });
}

// c = f c' + i, all steps in one kernel; `scan`: as a parallel prefix where the kernel thinks that
// it pays.
void BM_TimeLoop(benchmark::State& state, DType dtype, bool scan) {
  OnDevice(state, [&] {
    using enum PointwiseOp;
    const PointwiseProgram program{
        std::vector<InputKind>(3, InputKind::kElement), {}, {{kMul, 0, 2}, {kAdd, 3, 1}}, {4}};
    const int64_t steps = state.range(0);
    TypedProgram typed = OfOneType(program, dtype, true);
    if (scan) typed.scan_input = 2, typed.scan_output = 0;
    Rows rows(typed, steps, state.range(1), state.range(2));
    rows.input(2).delay = 1;
    rows.input(2).data = rows.run().outputs[0].data;
    rows.Measure(state, 2);
  });
}

const auto kSteps = [](auto* b) {
  for (const int64_t batch : {16, 64, 256}) {
    for (const int64_t n : {256, 512, 1024}) b->Args({batch, n});
  }
  b->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(10);
};
const auto kLarge = [](auto* b) {
  b->Args({400, 64, 512})->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(10);
};
const auto kLong = [](auto* b) {
  for (const int64_t batch : {1, 4, 16, 64, 255}) b->Args({4096, batch, 256});
  for (const int64_t steps : {64, 128, 256, 1024}) b->Args({steps, 16, 256});
  b->UseManualTime()->Unit(benchmark::kMicrosecond)->Iterations(10);
};

BENCHMARK_CAPTURE(BM_LstmStep, copy_f32, Copy(), DType::kFloat32)->Apply(kSteps);
BENCHMARK_CAPTURE(BM_LstmStep, forward_f32, LstmForwardProgram(), DType::kFloat32)->Apply(kSteps);
BENCHMARK_CAPTURE(BM_LstmStep, forward_bf16, LstmForwardProgram(), DType::kBFloat16)->Apply(kSteps);
BENCHMARK_CAPTURE(BM_LstmStep, backward_bf16, LstmBackwardProgram(), DType::kBFloat16)
    ->Apply(kSteps);
BENCHMARK_CAPTURE(BM_AllSteps, copy_f32, Copy(), DType::kFloat32)->Apply(kLarge);
BENCHMARK_CAPTURE(BM_AllSteps, forward_f32, LstmForwardProgram(), DType::kFloat32)->Apply(kLarge);
BENCHMARK_CAPTURE(BM_AllSteps, forward_bf16, LstmForwardProgram(), DType::kBFloat16)->Apply(kLarge);
BENCHMARK_CAPTURE(BM_TimeLoop, f32, DType::kFloat32, false)->Apply(kLarge);
BENCHMARK_CAPTURE(BM_TimeLoop, bf16, DType::kBFloat16, false)->Apply(kLarge);
BENCHMARK_CAPTURE(BM_TimeLoop, long_f32, DType::kFloat32, false)->Apply(kLong);
BENCHMARK_CAPTURE(BM_TimeLoop, scan_f32, DType::kFloat32, true)->Apply(kLong);

}  // namespace
}  // namespace turbolstm::cuda
