// The memory that products work in.

#include "ops/matmul/gemm_cuda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backend/cuda/check_cuda.h"
#include "backend/cuda/runtime_cuda.h"
#include "backend/cuda/testing/gpu.h"
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

}  // namespace
}  // namespace turbolstm::cuda
