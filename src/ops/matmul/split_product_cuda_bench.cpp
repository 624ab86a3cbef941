// fp32 products against the same out of bf16 pieces, at sizes on both sides of where IsSplit
// reckons that they are as fast ("reckoned" 1: split). Pieces of weights are there beforehand, all
// others are made within the time.

#include <benchmark/benchmark.h>

#include "backend/cuda/check_cuda.h"
#include "backend/cuda/runtime_cuda.h"
#include "backend/cuda/testing/time_replays.h"
#include "base/error.h"
#include "ops/matmul/split_product_cuda.h"

namespace turbolstm::cuda {
namespace {

constexpr int kLaunches = 20;

enum class Way : uint8_t { kFloat32, kTf32, kPieces };

class Operands {
 public:
  explicit Operands(const ProductSize& size)
      : size_(size),
        split_a_(size.outer ? SplitRows(size.k, size.m, 1) : SplitRows(size.m, size.k, 1)),
        split_b_(size.outer ? SplitRows(size.k, size.n, 1) : SplitWeight(size.n, size.k, 1, false)),
        a_(Filled(size.m * size.k)),
        b_(Filled(size.n * size.k)),
        c_(Filled(size.m * size.n)),
        a_pieces_(static_cast<size_t>(split_a_.bytes()), "pieces"),
        b_pieces_(static_cast<size_t>(split_b_.bytes()), "pieces") {
    SplitB(nullptr);
  }

  void Run(Way way, GemmRunner* runner, cudaStream_t stream) const {
    Gemm gemm;
    gemm.m = size_.m;
    gemm.n = size_.n;
    gemm.k = size_.k;
    gemm.a = {a_.data(), size_.outer ? size_.m : size_.k, 0, DType::kFloat32, size_.outer};
    gemm.b = {b_.data(), size_.outer ? size_.n : size_.k, 0, DType::kFloat32, !size_.outer};
    gemm.c = c_.data();
    gemm.c_stride = size_.n;
    if (way == Way::kTf32) gemm.fp32 = Fp32Product::kTf32;
    if (way != Way::kPieces) return runner->Run(gemm, stream);
    Split(split_a_, reinterpret_cast<const float*>(a_.data()), gemm.a.stride, 0, a_pieces_.data(),
          stream);
    if (size_.outer) {
      SplitB(stream);
      for (const Gemm& part :
           SplitOuterProducts(gemm, split_a_, a_pieces_.data(), 0, split_b_, b_pieces_.data(), 0)) {
        runner->Run(part, stream);
      }
      return;
    }
    for (const Gemm& part :
         SplitProducts(gemm, split_a_, a_pieces_.data(), split_b_, b_pieces_.data())) {
      runner->Run(part, stream);
    }
  }

 private:
  // Every byte the same: no zeros, which would take less power.
  static DeviceBuffer Filled(int64_t elements) {
    constexpr int kByte = 0x3f;  // 0.75 or so
    DeviceBuffer buffer(static_cast<size_t>(elements) * sizeof(float), "an operand");
    TL_CUDA_CHECK(cudaMemset(buffer.data(), kByte, buffer.size()));
    return buffer;
  }

  void SplitB(cudaStream_t stream) const {
    Split(split_b_, reinterpret_cast<const float*>(b_.data()), split_b_.columns, 0,
          b_pieces_.data(), stream);
  }

  ProductSize size_;
  SplitMatrix split_a_, split_b_;
  DeviceBuffer a_, b_, c_, a_pieces_, b_pieces_;
};

// Many times in one recorded graph, as steps of a loop are.
void Measure(benchmark::State& state, const ProductSize& size, Way way) {
  UseDevice(0);
  const Operands operands(size);
  GemmRunner runner;
  const Stream stream;
  operands.Run(way, &runner, stream.get());
  TimeReplays(state, stream, kLaunches, [&] { operands.Run(way, &runner, stream.get()); });
  const auto multiplies = static_cast<double>(size.m) * static_cast<double>(size.n * size.k);
  state.counters["TFLOP/s"] =
      benchmark::Counter(2e-12 * multiplies, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["reckoned"] = IsSplit(size, SplitRule::kWherePays) ? 1 : 0;
}

// [m, k] x [k, n]; the last argument: a sum over rows.
void BM_Product(benchmark::State& state, Way way) {
  try {
    const ProductSize size{state.range(0), state.range(1), state.range(2), 1, state.range(3) == 1};
    Measure(state, size, way);
  } catch (const Error& error) {
    state.SkipWithError(error.what());
  }
}

void Sizes(benchmark::internal::Benchmark* bench) {
  bench->UseManualTime()->Unit(benchmark::kMicrosecond)->ArgNames({"m", "n", "k", "rows"});
  for (const int64_t hidden : {256, 512, 1024}) {
    for (const int64_t batch : {16, 64, 128, 256, 512}) {
      bench->Args({batch, 4 * hidden, hidden, 0});
      bench->Args({batch, hidden, 4 * hidden, 0});
    }
    for (const int64_t rows : {4096, 16384, 65536}) {
      bench->Args({rows, 4 * hidden, hidden, 0});
      bench->Args({rows, hidden, 4 * hidden, 0});
      bench->Args({4 * hidden, hidden, rows, 1});
    }
  }
}

BENCHMARK_CAPTURE(BM_Product, fp32, Way::kFloat32)->Apply(Sizes);
BENCHMARK_CAPTURE(BM_Product, pieces, Way::kPieces)->Apply(Sizes);
BENCHMARK_CAPTURE(BM_Product, tf32, Way::kTf32)->Apply(Sizes);

}  // namespace
}  // namespace turbolstm::cuda
