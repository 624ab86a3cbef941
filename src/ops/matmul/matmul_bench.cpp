#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/bfloat16.h"
#include "ops/matmul/matmul.h"

#if defined(TL_BENCH_OPENBLAS)
#include <cblas.h>
#endif
#if defined(TL_BENCH_DNNL)
#include <dnnl.h>
#endif

// One thread. Rivals run where CMake found them, OpenBLAS best with OPENBLAS_NUM_THREADS=1 and
// oneDNN with OMP_NUM_THREADS=1. Weights stay the same over the calls, as over the steps of time.

namespace turbolstm {
namespace {

std::vector<float> Numbers(int64_t count) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i % 17) / 16 - 0.5f;
  return numbers;
}

std::vector<BFloat16> Halves(const std::vector<float>& numbers) {
  std::vector<BFloat16> halves;
  for (float number : numbers) halves.emplace_back(number);
  return halves;
}

void CountFlops(benchmark::State* state, int64_t m, int64_t n, int64_t k) {
  const double flops =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  state->counters["GFLOP/s"] =
      benchmark::Counter(flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

// [M, K, N]
void Shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"M", "K", "N"});
  for (int64_t h : {128, 256, 512, 1024}) {
    for (int64_t m : {1, 4, 8, 16, 32, 64}) benchmark->Args({m, h, 4 * h});  // recurrent step
    for (int64_t m : {1, 32}) benchmark->Args({m, 4 * h, h});                // its backward
  }
  benchmark->Args({20, 650, 2600});
  benchmark->Args({256, 64, 256});
  benchmark->Args({9344, 32, 256});
  benchmark->Args({3200, 128, 512});  // all steps of time at once
  benchmark->Args({3200, 512, 2048});
  benchmark->Args({3200, 2048, 512});
  benchmark->Args({1024, 1024, 1024});
}

// dw [M, N] over R rows: [M, R, N]
void GradientShapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"M", "R", "N"});
  benchmark->Args({256, 9344, 32});
  benchmark->Args({256, 9344, 64});
  benchmark->Args({512, 3200, 128});
  benchmark->Args({1024, 3200, 256});
  benchmark->Args({2048, 3200, 512});
  benchmark->Args({4096, 1600, 1024});
  benchmark->Args({2600, 700, 650});
}

void RunMatMul(benchmark::State& state, DType dtype) {
  const int64_t m = state.range(0), k = state.range(1), n = state.range(2);
  const std::vector<float> weight = Numbers(n * k), x = Numbers(m * k);
  const std::vector<BFloat16> half_x = Halves(x);
  std::vector<float> y(static_cast<size_t>(m * n));
  PackedMatrix packed;
  Pack({weight.data(), n, k, k}, true, dtype, &packed);
  const bool half = dtype == DType::kBFloat16;
  const void* rows = half ? static_cast<const void*>(half_x.data()) : x.data();
  for (auto _ : state) {
    MatMul({rows, k, dtype}, m, packed, nullptr, false, {y.data(), n});
    benchmark::ClobberMemory();
  }
  CountFlops(&state, m, n, k);
}

void BM_MatMul_fp32(benchmark::State& state) {
  RunMatMul(state, DType::kFloat32);
}
void BM_MatMul_bf16(benchmark::State& state) {
  RunMatMul(state, DType::kBFloat16);
}

void RunGradient(benchmark::State& state, DType dtype) {
  const int64_t m = state.range(0), r = state.range(1), n = state.range(2);
  const std::vector<float> a = Numbers(r * m), b = Numbers(r * n);
  const std::vector<BFloat16> half_a = Halves(a), half_b = Halves(b);
  std::vector<float> dw(static_cast<size_t>(m * n));
  const bool half = dtype == DType::kBFloat16;
  const ConstRows rows_a{half ? static_cast<const void*>(half_a.data()) : a.data(), m, dtype};
  const ConstRows rows_b{half ? static_cast<const void*>(half_b.data()) : b.data(), n, dtype};
  for (auto _ : state) {
    MatMulTransposed(rows_a, m, rows_b, n, r, dtype, true, dw.data(), n);
    benchmark::ClobberMemory();
  }
  CountFlops(&state, m, n, r);
}

void BM_MatMulTransposed_fp32(benchmark::State& state) {
  RunGradient(state, DType::kFloat32);
}
void BM_MatMulTransposed_bf16(benchmark::State& state) {
  RunGradient(state, DType::kBFloat16);
}

// [N, K], transposed, storage
void BM_Pack(benchmark::State& state) {
  const int64_t n = state.range(0), k = state.range(1);
  const bool transposed = state.range(2) != 0;
  const DType storage = state.range(3) != 0 ? DType::kBFloat16 : DType::kFloat32;
  const std::vector<float> weight = Numbers(n * k);
  PackedMatrix packed;
  for (auto _ : state) {
    Pack({weight.data(), transposed ? n : k, transposed ? k : n, transposed ? k : n}, transposed,
         storage, &packed);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * n * k * 4);
}

void BM_SumOverRows(benchmark::State& state) {
  const int64_t r = state.range(0), n = state.range(1);
  const std::vector<float> a = Numbers(r * n);
  std::vector<float> sums(static_cast<size_t>(n));
  for (auto _ : state) {
    SumOverRows({a.data(), n}, n, r, false, sums.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * n * r * 4);
}

BENCHMARK(BM_MatMul_fp32)->Apply(Shapes);
BENCHMARK(BM_MatMul_bf16)->Apply(Shapes);
BENCHMARK(BM_MatMulTransposed_fp32)->Apply(GradientShapes);
BENCHMARK(BM_MatMulTransposed_bf16)->Apply(GradientShapes);
BENCHMARK(BM_Pack)
    ->ArgNames({"N", "K", "transposed", "bf16"})
    ->ArgsProduct({{1024}, {256}, {0, 1}, {0, 1}})
    ->ArgsProduct({{4096}, {1024}, {0, 1}, {0, 1}});
BENCHMARK(BM_SumOverRows)->ArgNames({"R", "N"})->Args({3200, 1024});

#if defined(TL_BENCH_OPENBLAS)
void BM_OpenBLAS_fp32(benchmark::State& state) {
  const auto m = static_cast<int>(state.range(0));
  const auto k = static_cast<int>(state.range(1));
  const auto n = static_cast<int>(state.range(2));
  const std::vector<float> weight = Numbers(int64_t{n} * k), x = Numbers(int64_t{m} * k);
  std::vector<float> y(static_cast<size_t>(m) * static_cast<size_t>(n));
  for (auto _ : state) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, x.data(), k, weight.data(), k,
                0, y.data(), n);
    benchmark::ClobberMemory();
  }
  CountFlops(&state, m, n, k);
}

void BM_OpenBLASTransposed_fp32(benchmark::State& state) {
  const auto m = static_cast<int>(state.range(0));
  const auto r = static_cast<int>(state.range(1));
  const auto n = static_cast<int>(state.range(2));
  const std::vector<float> a = Numbers(int64_t{r} * m), b = Numbers(int64_t{r} * n);
  std::vector<float> dw(static_cast<size_t>(m) * static_cast<size_t>(n));
  for (auto _ : state) {
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, m, n, r, 1, a.data(), m, b.data(), n, 1,
                dw.data(), n);
    benchmark::ClobberMemory();
  }
  CountFlops(&state, m, n, r);
}
BENCHMARK(BM_OpenBLAS_fp32)->Apply(Shapes);
BENCHMARK(BM_OpenBLASTransposed_fp32)->Apply(GradientShapes);
#endif

#if defined(TL_BENCH_DNNL)
void BM_oneDNN_fp32(benchmark::State& state) {
  const int64_t m = state.range(0), k = state.range(1), n = state.range(2);
  const std::vector<float> weight = Numbers(n * k), x = Numbers(m * k);
  std::vector<float> y(static_cast<size_t>(m * n));
  for (auto _ : state) {
    dnnl_sgemm('N', 'T', m, n, k, 1, x.data(), k, weight.data(), k, 0, y.data(), n);
    benchmark::ClobberMemory();
  }
  CountFlops(&state, m, n, k);
}

void BM_oneDNNTransposed_fp32(benchmark::State& state) {
  const int64_t m = state.range(0), r = state.range(1), n = state.range(2);
  const std::vector<float> a = Numbers(r * m), b = Numbers(r * n);
  std::vector<float> dw(static_cast<size_t>(m * n));
  for (auto _ : state) {
    dnnl_sgemm('T', 'N', m, n, r, 1, a.data(), m, b.data(), n, 1, dw.data(), n);
    benchmark::ClobberMemory();
  }
  CountFlops(&state, m, n, r);
}
BENCHMARK(BM_oneDNN_fp32)->Apply(Shapes);
BENCHMARK(BM_oneDNNTransposed_fp32)->Apply(GradientShapes);
#endif

}  // namespace
}  // namespace turbolstm
