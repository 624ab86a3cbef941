// The memory that products work in.

#include "ops/matmul/gemm_cuda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "backend/cuda/check_cuda.h"
#include "backend/cuda/runtime_cuda.h"
#include "backend/cuda/testing/gpu.h"
#include "base/half_numbers.h"
#include "ops/matmul/product_workspace.h"

namespace turbolstm::cuda {
namespace {

// Sums of ones over k rows: [m, n] products whose sums are long, so that they are split.
class OnesProduct {
 public:
  OnesProduct(int64_t m, int64_t n, int64_t k)
      : m_(m), n_(n), k_(k), ones_(Bytes(k * std::max(m, n)), "a"), c_(Bytes(m * n), "c") {
    const std::vector<float> ones(ones_.size() / sizeof(float), 1.0f);
    TL_CUDA_CHECK(cudaMemcpy(ones_.data(), ones.data(), ones_.size(), cudaMemcpyHostToDevice));
  }

  void Run(GemmRunner* runner, const Stream& stream) const {
    Gemm gemm;
    gemm.m = m_;
    gemm.n = n_;
    gemm.k = k_;
    gemm.a = {ones_.data(), m_, 0, DType::kFloat32, true};
    gemm.b = {ones_.data(), n_, 0, DType::kFloat32, false};
    gemm.c = c_.data();
    gemm.c_stride = n_;
    runner->Run(gemm, stream.get());
  }

  bool IsRight(const Stream& stream) const {
    stream.Synchronize();
    std::vector<float> c(c_.size() / sizeof(float));
    TL_CUDA_CHECK(cudaMemcpy(c.data(), c_.data(), c_.size(), cudaMemcpyDeviceToHost));
    return std::all_of(c.begin(), c.end(),
                       [&](float sum) { return sum == static_cast<float>(k_); });
  }

 private:
  static size_t Bytes(int64_t elements) { return static_cast<size_t>(elements) * sizeof(float); }

  int64_t m_, n_, k_;
  DeviceBuffer ones_;
  DeviceBuffer c_;
};

TEST(ProductWorkspace, GrowsWhileWorkIsRecordedAndStaysWithWhatWasRecorded) {
  SKIP_WITHOUT_GPU();
  const Stream stream;
  GemmRunner runner;
  EXPECT_EQ(runner.workspace_bytes(), 0);
  std::vector<OnesProduct> products;
  for (const int64_t m : {32, 128, 512}) products.emplace_back(m, 256, 16384);
  const RecordedGraph recorded = RecordedGraph::Record(stream, [&] {
    for (const OnesProduct& product : products) product.Run(&runner, stream);
  });
  for (int run = 0; run < 2; ++run) {
    recorded.Launch(stream);
    for (const OnesProduct& product : products) EXPECT_TRUE(product.IsRight(stream));
  }
  EXPECT_LE(runner.workspace_bytes(), 3 * kLargeWorkspaceBytes);
  runner.DropOutgrownWorkspaces();
  EXPECT_FALSE(runner.has_outgrown_workspaces());
  EXPECT_LE(runner.workspace_bytes(), kLargeWorkspaceBytes);
  for (const OnesProduct& product : products) {
    product.Run(&runner, stream);
    EXPECT_TRUE(product.IsRight(stream));
  }
}

// Blocks of rows of a product in 16 bits.
TEST(Products, OfSomeRowsHaveTheBitsOfAll) {
  SKIP_WITHOUT_GPU();
  struct Size {
    int64_t rows, n, k, block;
  };
  for (const Size& size : {Size{2048, 1024, 256, 256}, Size{1024, 160, 40, 64},
                           Size{512, 64, 4096, 128}, Size{4096, 512, 2048, 1024}}) {
    std::mt19937 dice(3);
    std::uniform_real_distribution<float> numbers(-1, 1);
    const auto random = [&](int64_t elements) {
      std::vector<float> values(static_cast<size_t>(elements));
      for (float& value : values) value = numbers(dice);
      std::vector<uint16_t> bits(values.size());
      RoundToHalf(values, DType::kBFloat16, bits);
      DeviceBuffer buffer(2 * bits.size(), "numbers");
      TL_CUDA_CHECK(cudaMemcpy(buffer.data(), bits.data(), buffer.size(), cudaMemcpyHostToDevice));
      return buffer;
    };
    const DeviceBuffer a = random(size.rows * size.k), b = random(size.n * size.k);
    const auto product = [&](int64_t block, int32_t processors) {
      const Stream stream;
      GemmRunner runner;
      DeviceBuffer c(static_cast<size_t>(2 * size.rows * size.n), "c");
      for (int64_t row = 0; row < size.rows; row += block) {
        Gemm gemm;
        gemm.m = block;
        gemm.like_m = block == size.rows ? 0 : size.rows;
        gemm.processors = processors;
        gemm.n = size.n;
        gemm.k = size.k;
        gemm.a = {a.data() + 2 * row * size.k, size.k, 0, DType::kBFloat16, false};
        gemm.b = {b.data(), size.k, 0, DType::kBFloat16, true};
        gemm.c = c.data() + 2 * row * size.n;
        gemm.c_dtype = DType::kBFloat16;
        gemm.c_stride = size.n;
        runner.Run(gemm, stream.get());
      }
      stream.Synchronize();
      std::vector<uint16_t> bits(c.size() / 2);
      TL_CUDA_CHECK(cudaMemcpy(bits.data(), c.data(), c.size(), cudaMemcpyDeviceToHost));
      return bits;
    };
    const std::vector<uint16_t> whole = product(size.rows, 0);
    EXPECT_EQ(product(size.block, 0), whole) << size.k;
    EXPECT_EQ(product(size.block, 36), whole) << size.k << " on some multiprocessors";
  }
}

}  // namespace
}  // namespace turbolstm::cuda
