// Products of fp32 matrices out of products of bf16 pieces: that they multiply what they are to, on
// the host, and how near they come to float64, on a device.

#include "ops/matmul/split_product_cuda.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backend/cuda/check_cuda.h"
#include "backend/cuda/runtime_cuda.h"
#include "backend/cuda/testing/gpu.h"

namespace turbolstm::cuda {
namespace {

// Of the sum of |a b| of an element of the result, whose terms are of both signs or few: what fp32
// products and ours keep within and tf32 does not.
constexpr double kTolerance = 0x1p-18;
// Sums of many terms of one sign: fp32's rounding of partial sums adds up.
constexpr double kToleranceOfOneSign = 0x1p-14;

// A product of the two kinds that the executor runs, with its operands on the host.
struct Product {
  int64_t m = 0, n = 0, k = 0, batches = 1;
  bool outer = false;       // c = a' b over k rows, else c = a b with weights b
  bool transposed = false;  // the weights are [k, n]
  std::vector<float> a, b;

  std::string Name() const {
    return std::to_string(batches) + " of [" + std::to_string(m) + ", " + std::to_string(k) +
           "] x [" + std::to_string(k) + ", " + std::to_string(n) + "]" +
           (outer        ? " over rows"
            : transposed ? " transposed"
                         : "");
  }
  // Heads of a row lie side by side; those of weights and results of sums one after the other.
  float A(int64_t h, int64_t i, int64_t j) const {
    const int64_t at = outer ? (j * batches + h) * m + i : (i * batches + h) * k + j;
    return a[static_cast<size_t>(at)];
  }
  float B(int64_t h, int64_t j, int64_t i) const {
    int64_t at = (h * n + i) * k + j;
    if (transposed) at = (h * k + j) * n + i;
    if (outer) at = (j * batches + h) * n + i;
    return b[static_cast<size_t>(at)];
  }
  int64_t CAt(int64_t h, int64_t i, int64_t j) const {
    return outer ? (h * m + i) * n + j : (i * batches + h) * n + j;
  }

  // Without operands.
  Gemm Describe(void* c) const {
    Gemm gemm;
    gemm.m = m;
    gemm.n = n;
    gemm.k = k;
    gemm.batches = batches;
    gemm.a.transposed = outer;
    gemm.a.stride = outer ? batches * m : batches * k;
    gemm.a.batch_stride = outer ? m : k;
    gemm.b.transposed = !outer && !transposed;
    gemm.b.stride = outer ? batches * n : transposed ? n : k;
    gemm.b.batch_stride = outer ? n : n * k;
    gemm.c = c;
    gemm.c_stride = outer ? n : batches * n;
    gemm.c_batch_stride = outer ? m * n : n;
    return gemm;
  }
  SplitMatrix SplitA() const { return outer ? SplitRows(k, m, batches) : SplitRows(m, k, batches); }
  SplitMatrix SplitB() const {
    if (outer) return SplitRows(k, n, batches);
    return transposed ? SplitWeight(k, n, batches, true) : SplitWeight(n, k, batches, false);
  }
  std::vector<Gemm> Products(void* c, const void* a_pieces, const void* b_pieces) const {
    if (outer) {
      return SplitOuterProducts(Describe(c), SplitA(), a_pieces, 0, SplitB(), b_pieces, 0);
    }
    const auto products = SplitProducts(Describe(c), SplitA(), a_pieces, SplitB(), b_pieces);
    return {products.begin(), products.end()};
  }
};

using Draw = std::function<float(std::mt19937*)>;

// Elements of a and of b.
struct Draws {
  Draw a, b;
};

Product Drawn(const Product& sizes, std::mt19937* random, const Draws& draws) {
  Product product = sizes;
  product.a.resize(static_cast<size_t>(sizes.batches * sizes.m * sizes.k));
  product.b.resize(static_cast<size_t>(sizes.batches * sizes.k * sizes.n));
  for (float& x : product.a) x = draws.a(random);
  for (float& x : product.b) x = draws.b(random);
  return product;
}

float Between(std::mt19937* random, float least, float most) {
  return std::uniform_real_distribution<float>(least, most)(*random);
}
// Of both signs, from 10^-exponent to 10^exponent.
float AnySize(std::mt19937* random, float exponent) {
  const float sign = (*random)() % 2 == 0 ? 1.0f : -1.0f;
  return sign * std::pow(10.0f, Between(random, -exponent, exponent));
}

const Draw kAnySign = [](std::mt19937* random) { return Between(random, -1, 1); };
const Draw kPositive = [](std::mt19937* random) { return Between(random, 0, 1); };
// Products, and those of the smallest pieces, stay far from fp32's ends.
const Draws kAnySizes{[](std::mt19937* random) { return AnySize(random, 20); },
                      [](std::mt19937* random) { return AnySize(random, 10); }};
const Draws kAnySigns{kAnySign, kAnySign};

// The largest difference from float64, of the sum of |a b|.
double Error(const Product& product, const std::vector<float>& c) {
  double most = 0;
  for (int64_t h = 0; h < product.batches; ++h) {
    for (int64_t i = 0; i < product.m; ++i) {
      for (int64_t j = 0; j < product.n; ++j) {
        double exact = 0, magnitude = 0;
        for (int64_t l = 0; l < product.k; ++l) {
          const double term = double{product.A(h, i, l)} * double{product.B(h, l, j)};
          exact += term;
          magnitude += std::abs(term);
        }
        const double got = double{c[static_cast<size_t>(product.CAt(h, i, j))]};
        const double error = std::abs(got - exact) / std::max(magnitude, 1e-300);
        most = error >= most ? error : std::isnan(error) ? 1e300 : most;
      }
    }
  }
  return most;
}

// --- On the host.

uint16_t PieceOf(float x, int piece) {
  return SplitFloat(x)[static_cast<size_t>(piece)].bits;
}

// What Split is to write.
std::vector<uint16_t> SplitOnHost(const SplitMatrix& split, const float* x, int64_t x_stride,
                                  int64_t x_block_stride) {
  std::vector<uint16_t> pieces(static_cast<size_t>(split.elements()), 0);
  for (int64_t block = 0; block < split.blocks; ++block) {
    for (int64_t row = 0; row < split.rows; ++row) {
      for (int64_t column = 0; column < split.columns; ++column) {
        for (int piece = 0; piece < kSplitPieces; ++piece) {
          const int place = split.smallest_first ? kSplitPieces - 1 - piece : piece;
          const int64_t at =
              block * split.block_stride + row * split.stride + place * split.piece_stride + column;
          pieces[static_cast<size_t>(at)] =
              PieceOf(x[block * x_block_stride + row * x_stride + column], piece);
        }
      }
    }
  }
  return pieces;
}

double At(const DeviceMatrix& matrix, int64_t batch, int64_t row, int64_t column) {
  if (matrix.transposed) std::swap(row, column);
  BFloat16 x;
  x.bits = static_cast<const uint16_t*>(
      matrix.data)[batch * matrix.batch_stride + row * matrix.stride + column];
  return double{static_cast<float>(x)};
}

// In float64, rounded once.
void RunOnHost(const Gemm& gemm) {
  for (int64_t h = 0; h < gemm.batches; ++h) {
    for (int64_t i = 0; i < gemm.m; ++i) {
      for (int64_t j = 0; j < gemm.n; ++j) {
        float& c = static_cast<float*>(gemm.c)[h * gemm.c_batch_stride + i * gemm.c_stride + j];
        double sum = gemm.accumulate ? double{c} : 0;
        for (int64_t l = 0; l < gemm.k; ++l) sum += At(gemm.a, h, i, l) * At(gemm.b, h, l, j);
        c = static_cast<float>(sum);
      }
    }
  }
}

std::vector<Product> SmallProducts() {
  std::vector<Product> products;
  for (const int64_t batches : {1, 2}) {
    for (const bool outer : {false, true}) {
      for (const bool transposed : {false, true}) {
        if (outer && transposed) continue;
        for (const int64_t m : {1, 17}) {
          for (const int64_t n : {1, 8, 17}) {
            for (const int64_t k : {1, 17, 32}) {
              products.push_back({m, n, k, batches, outer, transposed, {}, {}});
            }
          }
        }
      }
    }
  }
  return products;
}

TEST(SplitProductCuda, ProductsOfPiecesAddUpToTheProduct) {
  std::mt19937 random(1);
  for (const Product& sizes : SmallProducts()) {
    const Product product = Drawn(sizes, &random, kAnySizes);
    const Gemm gemm = product.Describe(nullptr);
    const auto a =
        SplitOnHost(product.SplitA(), product.a.data(), gemm.a.stride, gemm.a.batch_stride);
    const auto b =
        SplitOnHost(product.SplitB(), product.b.data(), gemm.b.stride, gemm.b.batch_stride);
    std::vector<float> c(static_cast<size_t>(product.batches * product.m * product.n), -7.0f);
    for (const Gemm& part : product.Products(c.data(), a.data(), b.data())) RunOnHost(part);
    ASSERT_LE(Error(product, c), 0x1p-22) << product.Name();
  }
}

TEST(SplitProductCuda, LongSumsAreAddedUpInParts) {
  const Product product{3, 5, 2 * kSplitRowsOfSum + 9, 1, true, false, {}, {}};
  int64_t rows = 0, row = 0;
  bool first = true;
  const std::vector<Gemm> parts = product.Products(nullptr, nullptr, nullptr);
  EXPECT_EQ(parts.size(), 3 * kSplitTerms.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i].accumulate, !first);
    EXPECT_LE(parts[i].k, kSplitRowsOfSum);
    first = false;
    if (i % kSplitTerms.size() == kSplitTerms.size() - 1) {
      // The last term is of the largest pieces, which lie first in their row.
      const auto offset = reinterpret_cast<uintptr_t>(parts[i].a.data);
      EXPECT_EQ(offset, static_cast<uintptr_t>(row * product.SplitA().stride * 2));
      rows += parts[i].k;
      row += kSplitRowsOfSum;
    }
  }
  EXPECT_EQ(rows, product.k);
}

TEST(SplitProductCuda, OnlyTheFirstProductAddsWhatThereIs) {
  const Product product{2, 3, 4, 1, false, false, {}, {}};
  float c[6], bias[3];
  Gemm gemm = product.Describe(c);
  gemm.bias = bias;
  const auto parts = SplitProducts(gemm, product.SplitA(), nullptr, product.SplitB(), nullptr);
  EXPECT_EQ(parts[0].bias, bias);
  EXPECT_FALSE(parts[0].accumulate);
  for (const size_t i : {1, 2}) {
    EXPECT_EQ(parts[i].bias, nullptr);
    EXPECT_TRUE(parts[i].accumulate);
  }
}

// --- On a device.

class SplitProductOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_GPU();
    UseDevice(0);
    runner_ = std::make_unique<GemmRunner>();
    stream_ = std::make_unique<Stream>();
  }

  template <typename Value>
  static DeviceBuffer Uploaded(const std::vector<Value>& values) {
    DeviceBuffer buffer(values.size() * sizeof(Value), "an operand");
    TL_CUDA_CHECK(cudaMemcpy(buffer.data(), values.data(), buffer.size(), cudaMemcpyHostToDevice));
    return buffer;
  }

  template <typename Value>
  std::vector<Value> Downloaded(const DeviceBuffer& buffer) const {
    stream_->Synchronize();
    std::vector<Value> values(buffer.size() / sizeof(Value));
    TL_CUDA_CHECK(cudaMemcpy(values.data(), buffer.data(), buffer.size(), cudaMemcpyDeviceToHost));
    return values;
  }

  static DeviceBuffer Result(const Product& product) {
    return DeviceBuffer(
        static_cast<size_t>(product.batches * product.m * product.n) * sizeof(float), "a result");
  }

  std::vector<float> Plain(const Product& product, Fp32Product fp32) {
    const DeviceBuffer a = Uploaded(product.a), b = Uploaded(product.b), c = Result(product);
    Gemm gemm = product.Describe(c.data());
    gemm.a.data = a.data();
    gemm.b.data = b.data();
    gemm.fp32 = fp32;
    runner_->Run(gemm, stream_->get());
    return Downloaded<float>(c);
  }

  std::vector<float> OfPieces(const Product& product) {
    const DeviceBuffer a = Uploaded(product.a), b = Uploaded(product.b), c = Result(product);
    const Gemm gemm = product.Describe(c.data());
    const DeviceBuffer a_pieces(static_cast<size_t>(product.SplitA().bytes()), "pieces");
    const DeviceBuffer b_pieces(static_cast<size_t>(product.SplitB().bytes()), "pieces");
    const auto split = [&](const SplitMatrix& how, const DeviceBuffer& x,
                           const DeviceMatrix& matrix, const DeviceBuffer& pieces) {
      Split(how, reinterpret_cast<const float*>(x.data()), matrix.stride, matrix.batch_stride,
            pieces.data(), stream_->get());
    };
    split(product.SplitA(), a, gemm.a, a_pieces);
    split(product.SplitB(), b, gemm.b, b_pieces);
    for (const Gemm& part : product.Products(c.data(), a_pieces.data(), b_pieces.data())) {
      runner_->Run(part, stream_->get());
    }
    return Downloaded<float>(c);
  }

  // Both keep within the tolerance, and do so twice with the same bits.
  void Check(const Product& product, double tolerance) {
    const std::vector<float> ours = OfPieces(product);
    EXPECT_LE(Error(product, ours), tolerance) << product.Name();
    EXPECT_EQ(OfPieces(product), ours) << "the same product twice: " << product.Name();
    EXPECT_LE(Error(product, Plain(product, Fp32Product::kIeee)), tolerance)
        << "fp32: " << product.Name();
  }

  std::unique_ptr<GemmRunner> runner_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(SplitProductOnGpu, PiecesAreThoseOfTheHost) {
  std::mt19937 random(1);
  for (const bool transposed : {false, true}) {
    for (const auto& [rows, columns, blocks] : {std::array<int64_t, 3>{0, 5, 1},
                                                {5, 0, 1},
                                                {1, 1, 1},
                                                {17, 17, 2},
                                                {64, 40, 1},
                                                {70000, 3, 1}}) {
      const SplitMatrix split = SplitWeight(rows, columns, blocks, transposed);
      std::vector<float> x(static_cast<size_t>(rows * columns * blocks));
      for (float& value : x) value = AnySize(&random, 30);
      constexpr float kExtremes[] = {std::numeric_limits<float>::max(),
                                     std::numeric_limits<float>::infinity(),
                                     -std::numeric_limits<float>::infinity(),
                                     std::numeric_limits<float>::denorm_min(),
                                     -0.0f,
                                     1.0f + 0x1p-8f};
      std::copy_n(kExtremes, std::min(std::size(kExtremes), x.size()), x.begin());
      const DeviceBuffer from = Uploaded(x);
      const DeviceBuffer to(static_cast<size_t>(split.bytes()), "pieces");
      Split(split, reinterpret_cast<const float*>(from.data()), columns, rows * columns, to.data(),
            stream_->get());
      EXPECT_EQ(Downloaded<uint16_t>(to), SplitOnHost(split, x.data(), columns, rows * columns))
          << rows << " x " << columns;
    }
  }
}

TEST_F(SplitProductOnGpu, NotANumberStays) {
  const Product product{1, 1, 1, 1, false, false, {std::nanf("")}, {1.0f}};
  EXPECT_TRUE(std::isnan(OfPieces(product)[0]));
}

TEST_F(SplitProductOnGpu, IsAsExactAsFp32AndTf32IsNot) {
  std::mt19937 random(2);
  std::vector<Product> products = SmallProducts();
  for (const bool outer : {false, true}) {
    for (const bool transposed : {false, true}) {
      if (outer && transposed) continue;
      products.push_back({33, 65, 300, 1, outer, transposed, {}, {}});
      products.push_back({128, 96, 1024, 1, outer, transposed, {}, {}});
      products.push_back({16, 24, 20000, 1, outer, transposed, {}, {}});
    }
  }
  for (const Product& sizes : products) {
    for (const Draws& draws : {kAnySigns, kAnySizes}) {
      const Product product = Drawn(sizes, &random, draws);
      Check(product, kTolerance);
      if (product.m < 128) continue;  // small ones may run without tensor cores, or be lucky
      EXPECT_GT(Error(product, Plain(product, Fp32Product::kTf32)), kTolerance)
          << "tf32: " << product.Name();
    }
  }
}

// Every sum is about a unit in the last place of its terms.
TEST_F(SplitProductOnGpu, KeepsWhatCancellationLeaves) {
  std::mt19937 random(3);
  for (const bool outer : {false, true}) {
    Product product = Drawn({128, 128, 64, 1, outer, false, {}, {}}, &random, kAnySigns);
    const auto a = [&](int64_t i, int64_t l) -> float& {
      return product.a[static_cast<size_t>(outer ? l * product.m + i : i * product.k + l)];
    };
    const auto b = [&](int64_t l, int64_t j) -> float& {
      return product.b[static_cast<size_t>(outer ? l * product.n + j : j * product.k + l)];
    };
    for (int64_t l = 0; l < product.k; l += 2) {
      const float scale = Between(&random, 1, 2);
      for (int64_t i = 0; i < product.m; ++i) a(i, l + 1) = -a(i, l) * scale;
      for (int64_t j = 0; j < product.n; ++j) b(l + 1, j) = b(l, j) / scale;
    }
    Check(product, kTolerance);
    EXPECT_GT(Error(product, Plain(product, Fp32Product::kTf32)), kTolerance);
  }
}

TEST_F(SplitProductOnGpu, LongSumsOfOneSignStayNear) {
  std::mt19937 random(4);
  Check(Drawn({8, 12, 70000, 1, true, false, {}, {}}, &random, {kPositive, kPositive}),
        kToleranceOfOneSign);
}

}  // namespace
}  // namespace turbolstm::cuda
