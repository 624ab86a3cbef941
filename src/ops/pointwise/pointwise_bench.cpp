// The pointwise part of an LSTM step, forward and backward: the interpreter (interpreted:1) against
// the kernel compiled ahead of time (interpreted:0). Counter: nanoseconds per element.

#include <benchmark/benchmark.h>

#include <bit>
#include <random>
#include <vector>

#include "base/bfloat16.h"
#include "ops/pointwise/kernel.h"
#include "ops/pointwise/testing/sample_programs.h"

namespace turbolstm {
namespace {

// The value itself, or twice as bf16.
float Element(float value, DType dtype) {
  const uint32_t bits = BFloat16(value).bits;
  return dtype == DType::kFloat32 ? value : std::bit_cast<float>(bits << 16 | bits);
}

void Run(benchmark::State& state, const PointwiseProgram& program, DType dtype) {
  RegisterSampleKernels();
  const int64_t rows = state.range(0);
  const int64_t n = state.range(1);
  const PointwiseKernel kernel =
      state.range(2) != 0 ? InterpretPointwise(program) : CompilePointwise(program);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-2.0f, 2.0f);
  std::vector<std::vector<float>> memory;
  std::vector<PointwiseSlot> slots;
  // Gaps between the rows, as for gates that are packed side by side.
  const int64_t stride = 4 * n;
  for (size_t i = 0; i < program.inputs.size() + program.outputs.size(); ++i) {
    memory.emplace_back(rows * stride);
    for (float& value : memory.back()) value = Element(uniform(random), dtype);
    slots.push_back({memory.back().data(), stride, dtype});
  }
  for (auto _ : state) {
    kernel({rows, n, slots.data(), slots.data() + program.inputs.size()});
    benchmark::ClobberMemory();
  }
  state.counters["ns/element"] =
      benchmark::Counter(static_cast<double>(state.iterations() * rows * n) * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void LstmForward(benchmark::State& state) {
  Run(state, LstmForwardProgram(), DType::kFloat32);
}
void LstmBackward(benchmark::State& state) {
  Run(state, LstmBackwardProgram(), DType::kFloat32);
}
void LstmForwardBFloat16(benchmark::State& state) {
  Run(state, LstmForwardProgram(), DType::kBFloat16);
}

void One(benchmark::State& state, PointwiseOp op) {
  Run(state, {{InputKind::kElement}, {}, {{op, 0, 0, 0}}, {1}}, DType::kFloat32);
}

void Shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"rows", "n", "interpreted"})
      ->ArgsProduct({{1, 16}, {128}, {0, 1}})
      ->ArgsProduct({{32}, {512}, {0, 1}})
      ->ArgsProduct({{32}, {100}, {0, 1}});
}

BENCHMARK(LstmForward)->Apply(Shapes);
BENCHMARK(LstmBackward)->Apply(Shapes);
BENCHMARK(LstmForwardBFloat16)->Apply(Shapes);
BENCHMARK_CAPTURE(One, copy, PointwiseOp::kCopy)->Args({1, 1024, 1});
BENCHMARK_CAPTURE(One, exp, PointwiseOp::kExp)->Args({1, 1024, 1});
BENCHMARK_CAPTURE(One, sigmoid, PointwiseOp::kSigmoid)->Args({1, 1024, 1});
BENCHMARK_CAPTURE(One, tanh, PointwiseOp::kTanh)->Args({1, 1024, 1});
BENCHMARK_CAPTURE(One, softplus, PointwiseOp::kSoftplus)->Args({1, 1024, 1});
BENCHMARK_CAPTURE(One, log, PointwiseOp::kLog)->Args({1, 1024, 1});
BENCHMARK_CAPTURE(One, sin, PointwiseOp::kSin)->Args({1, 1024, 1});

}  // namespace
}  // namespace turbolstm
