#include "ops/matmul/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/bfloat16.h"
#include "base/error.h"
#include "ops/cpu_target.h"
#include "ops/matmul/matmul_ref.h"

namespace turbolstm {
namespace {

// An fp32 sum of `terms` products of numbers below 1 in magnitude, against float64.
double SumTolerance(int64_t terms) {
  return 1e-6 * (4.0 + std::sqrt(static_cast<double>(terms)));
}
// Storing a result as bf16 rounds it by half a unit of its 8 bits.
constexpr double kBFloat16Rounding = 1.0 / 256;

float Rounded(float value) {
  return static_cast<float>(BFloat16(value));
}

// Rows of random numbers in (-1, 1) in a larger matrix, optionally reached by shuffled pointers.
class RandomRows {
 public:
  RandomRows(std::mt19937* random, int64_t rows, int64_t columns, DType dtype, bool gather) {
    stride_ = columns + static_cast<int64_t>((*random)() % 5);
    offset_ = static_cast<int64_t>((*random)() % 3);
    std::uniform_real_distribution<float> uniform(-1, 1);
    const auto count = static_cast<size_t>(rows * stride_ + offset_ + 1);
    for (size_t i = 0; i < count; ++i) {
      floats_.push_back(uniform(*random));
      halves_.emplace_back(floats_.back());
    }
    dtype_ = dtype;
    if (!gather) return;
    for (int64_t row = 0; row < rows; ++row) pointers_.push_back(Address(row));
    std::shuffle(pointers_.begin(), pointers_.end(), *random);
    pointers_.push_back(nullptr);  // so that no rows make pointers too
  }

  ConstRows View() const {
    return {Address(0), stride_, dtype_, pointers_.empty() ? nullptr : pointers_.data(), offset_};
  }
  // For arithmetic in bf16 of fp32 rows: what the reference must see.
  void Round() {
    for (float& value : floats_) value = Rounded(value);
  }

 private:
  const void* Address(int64_t row) const {
    if (dtype_ == DType::kFloat32) return floats_.data() + row * stride_;
    return halves_.data() + row * stride_;
  }

  std::vector<float> floats_;
  std::vector<BFloat16> halves_;
  std::vector<const void*> pointers_;
  int64_t stride_ = 0;
  int64_t offset_ = 0;
  DType dtype_ = DType::kFloat32;
};

struct Weight {
  std::vector<float> data;
  MatrixView view;

  Weight(std::mt19937* random, int64_t rows, int64_t columns, DType storage) {
    const int64_t stride = columns + static_cast<int64_t>((*random)() % 4);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (int64_t i = 0; i < rows * stride + 1; ++i) data.push_back(uniform(*random));
    if (storage == DType::kBFloat16) {
      for (float& value : data) value = Rounded(value);
    }
    view = {data.data(), rows, columns, stride};
  }
};

// Results with a guard between the rows that no product may touch.
class Result {
 public:
  Result(std::mt19937* random, int64_t rows, int64_t columns, DType dtype)
      : rows_(rows), columns_(columns), stride_(columns + kGuard), dtype_(dtype) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (int64_t i = 0; i < rows * stride_ + 1; ++i) {
      const float value = Rounded(uniform(*random));
      floats_.push_back(i % stride_ < columns ? value : kUntouched);
      halves_.emplace_back(floats_.back());
    }
  }

  Rows View(int64_t row = 0, int64_t column = 0) {
    const int64_t at = row * stride_ + column;
    if (dtype_ == DType::kFloat32) return {floats_.data() + at, stride_, dtype_};
    return {halves_.data() + at, stride_, dtype_};
  }
  float At(int64_t row, int64_t column) const {
    const auto at = static_cast<size_t>(row * stride_ + column);
    return dtype_ == DType::kFloat32 ? floats_[at] : static_cast<float>(halves_[at]);
  }
  std::vector<double> Wide() const {
    std::vector<double> wide;
    for (int64_t i = 0; i < rows_; ++i) {
      for (int64_t j = 0; j < columns_; ++j) wide.push_back(At(i, j));
    }
    wide.push_back(0);
    return wide;
  }
  void ExpectNear(const std::vector<double>& want, double tolerance) const {
    for (int64_t i = 0; i < rows_; ++i) {
      for (int64_t j = 0; j < columns_; ++j) {
        const double wanted = want[static_cast<size_t>(i * columns_ + j)];
        const double rounding = dtype_ == DType::kBFloat16 ? kBFloat16Rounding : 0.0;
        ASSERT_NEAR(At(i, j), wanted, tolerance + rounding * std::abs(wanted))
            << "at " << i << ", " << j;
      }
      for (int64_t j = columns_; j < stride_; ++j) ASSERT_EQ(At(i, j), kUntouched);
    }
  }
  bool SameBits(const Result& other) const {
    return std::memcmp(floats_.data(), other.floats_.data(), floats_.size() * sizeof(float)) == 0 &&
           std::memcmp(halves_.data(), other.halves_.data(), halves_.size() * sizeof(BFloat16)) ==
               0;
  }

 private:
  static constexpr int64_t kGuard = 3;
  static constexpr float kUntouched = 12352.0f;
  int64_t rows_;
  int64_t columns_;
  int64_t stride_;
  DType dtype_;
  std::vector<float> floats_;
  std::vector<BFloat16> halves_;
};

class MatMulTest : public testing::TestWithParam<std::tuple<CpuTarget, DType>> {
 protected:
  void SetUp() override {
    previous_ = CurrentCpuTarget();
    SetCpuTarget(std::get<0>(GetParam()));
  }
  void TearDown() override { SetCpuTarget(previous_); }

  DType arithmetic() const { return std::get<1>(GetParam()); }
  // Sizes that divide nothing, that meet every kernel's edges, and none at all.
  int64_t Size(int64_t most) {
    constexpr int64_t kEdges[] = {0, 1, 2, 13, 14, 15, 16, 17, 28, 31, 32, 33, 64, 65};
    const int64_t size = random_() % 2 == 0 ? kEdges[random_() % std::size(kEdges)]
                                            : static_cast<int64_t>(random_()) % (most + 1);
    return std::min(size, most);
  }
  DType RandomDType() { return random_() % 2 == 0 ? DType::kFloat32 : DType::kBFloat16; }
  bool Chance() { return random_() % 2 == 0; }

  std::mt19937 random_{20240531};

 private:
  CpuTarget previous_ = CpuTarget::kPortable;
};

TEST_P(MatMulTest, AgreesWithReference) {
  PackedMatrix packed;
  for (int trial = 0; trial < 150; ++trial) {
    const int64_t m = Size(130), n = Size(150), k = trial % 10 == 0 ? Size(1200) : Size(150);
    const bool transposed = Chance(), accumulate = Chance();
    SCOPED_TRACE(testing::Message() << "m " << m << " n " << n << " k " << k << " transposed "
                                    << transposed << " accumulate " << accumulate);
    RandomRows x(&random_, m, k, RandomDType(), Chance());
    const Weight weight(&random_, transposed ? n : k, transposed ? k : n, arithmetic());
    const std::vector<float> bias(static_cast<size_t>(n), 0.25f);
    const float* given_bias = Chance() ? bias.data() : nullptr;
    Result y(&random_, m, n, RandomDType());
    std::vector<double> want = y.Wide();

    Pack(weight.view, transposed, arithmetic(), &packed);
    MatMul(x.View(), m, packed, given_bias, accumulate, y.View());
    if (arithmetic() == DType::kBFloat16) x.Round();
    reference::MatMul(x.View(), m, weight.view, transposed, given_bias, accumulate, want.data());
    y.ExpectNear(want, SumTolerance(k));
  }
}

TEST_P(MatMulTest, BlockDiagonalIsOneProductPerHead) {
  constexpr int64_t kHeads = 3, kM = 19, kN = 37, kK = 21;
  for (bool transposed : {false, true}) {
    RandomRows x(&random_, kM, kHeads * kK, arithmetic(), false);
    const Weight weight(&random_, kHeads * (transposed ? kN : kK), transposed ? kK : kN,
                        arithmetic());
    PackedMatrix packed;
    Pack(weight.view, transposed, arithmetic(), &packed, kHeads);
    Result y(&random_, kM, kHeads * kN, DType::kFloat32);
    MatMul(x.View(), kM, packed, nullptr, false, y.View());
    std::vector<double> want(static_cast<size_t>(kM * kHeads * kN));
    for (int64_t head = 0; head < kHeads; ++head) {
      ConstRows part = x.View();
      part.offset += head * kK;
      MatrixView block = weight.view;
      block.rows /= kHeads;
      block.data += head * block.rows * block.stride;
      std::vector<double> one(static_cast<size_t>(kM * kN));
      reference::MatMul(part, kM, block, transposed, nullptr, false, one.data());
      for (int64_t i = 0; i < kM; ++i) {
        std::copy_n(&one[static_cast<size_t>(i * kN)], kN,
                    &want[static_cast<size_t>((i * kHeads + head) * kN)]);
      }
    }
    y.ExpectNear(want, SumTolerance(kK));
  }
}

TEST_P(MatMulTest, BitsDoNotDependOnHowRowsAndColumnsAreSplit) {
  for (int trial = 0; trial < 40; ++trial) {
    const int64_t heads = 1 + static_cast<int64_t>(random_() % 2);
    const int64_t m = 1 + Size(200), n = 1 + Size(150), k = Size(700);
    const bool accumulate = Chance();
    SCOPED_TRACE(testing::Message() << "m " << m << " n " << n << " k " << k);
    const RandomRows x(&random_, m, heads * k, RandomDType(), false);
    const Weight weight(&random_, heads * n, k, arithmetic());
    const std::vector<float> bias(static_cast<size_t>(heads * n), 0.3f);
    PackedMatrix packed;
    Pack(weight.view, true, arithmetic(), &packed, heads);
    Result whole(&random_, m, heads * n, RandomDType());
    Result parts = whole;
    MatMul(x.View(), m, packed, bias.data(), accumulate, whole.View());
    for (int64_t row = 0; row < m;) {
      const int64_t rows = std::min<int64_t>(m - row, 1 + static_cast<int64_t>(random_() % 40));
      ConstRows block = x.View();
      block.offset += row * block.stride;
      for (int64_t column = 0; column < heads * n;) {
        const int64_t end =
            std::min<int64_t>(heads * n, column + 1 + static_cast<int64_t>(random_() % 90));
        MatMul(block, rows, packed, {column, end}, bias.data() + column, accumulate,
               parts.View(row, column));
        column = end;
      }
      row += rows;
    }
    ASSERT_TRUE(whole.SameBits(parts));
  }
}

TEST_P(MatMulTest, TransposedAgreesWithReference) {
  for (int trial = 0; trial < 80; ++trial) {
    const int64_t m = Size(230), n = Size(90), r = trial % 10 == 0 ? Size(1200) : Size(80);
    const bool accumulate = Chance();
    SCOPED_TRACE(testing::Message() << "m " << m << " n " << n << " r " << r);
    RandomRows a(&random_, r, m, RandomDType(), Chance());
    RandomRows b(&random_, r, n, RandomDType(), Chance());
    Result dw(&random_, m, n, DType::kFloat32);
    std::vector<double> want = dw.Wide();
    const Rows to = dw.View();
    MatMulTransposed(a.View(), m, b.View(), n, r, arithmetic(), accumulate,
                     static_cast<float*>(to.base), to.stride);
    if (arithmetic() == DType::kBFloat16) {
      a.Round();
      b.Round();
    }
    reference::MatMulTransposed(a.View(), m, b.View(), n, r, accumulate, want.data());
    dw.ExpectNear(want, SumTolerance(r));
  }
}

TEST_P(MatMulTest, BitsOfTransposedDoNotDependOnTiles) {
  for (int trial = 0; trial < 15; ++trial) {
    const int64_t m = 1 + Size(400), n = 1 + Size(600), r = Size(700);
    const RandomRows a(&random_, r, m, RandomDType(), false);
    const RandomRows b(&random_, r, n, RandomDType(), false);
    const bool accumulate = Chance();
    Result whole(&random_, m, n, DType::kFloat32);
    Result parts = whole;
    const Rows to = whole.View();
    MatMulTransposed(a.View(), m, b.View(), n, r, arithmetic(), accumulate,
                     static_cast<float*>(to.base), to.stride);
    for (int64_t i = 0; i < m;) {
      const int64_t rows = std::min<int64_t>(m - i, 1 + static_cast<int64_t>(random_() % 200));
      for (int64_t j = 0; j < n;) {
        const int64_t columns = std::min<int64_t>(n - j, 1 + static_cast<int64_t>(random_() % 300));
        ConstRows tile_a = a.View(), tile_b = b.View();
        tile_a.offset += i;
        tile_b.offset += j;
        const Rows tile = parts.View(i, j);
        MatMulTransposed(tile_a, rows, tile_b, columns, r, arithmetic(), accumulate,
                         static_cast<float*>(tile.base), tile.stride);
        j += columns;
      }
      i += rows;
    }
    ASSERT_TRUE(whole.SameBits(parts));
  }
}

TEST_P(MatMulTest, SumsOverRows) {
  for (int trial = 0; trial < 20; ++trial) {
    const int64_t n = Size(600), r = Size(700);
    const RandomRows a(&random_, r, n, RandomDType(), Chance());
    const bool accumulate = Chance();
    Result sums(&random_, 1, n, DType::kFloat32);
    std::vector<double> want = sums.Wide();
    SumOverRows(a.View(), n, r, accumulate, static_cast<float*>(sums.View().base));
    reference::SumOverRows(a.View(), n, r, accumulate, want.data());
    sums.ExpectNear(want, SumTolerance(r));
  }
}

TEST_P(MatMulTest, PacksAgainAfterAMove) {
  const Weight weight(&random_, 4, 4, arithmetic());
  const ConstRows x{weight.data.data(), 4, DType::kFloat32};
  PackedMatrix packed;
  Pack(weight.view, true, arithmetic(), &packed);
  const PackedMatrix moved = std::move(packed);
  Pack(weight.view, true, arithmetic(), &packed);
  Result first(&random_, 1, 4, DType::kFloat32);
  Result second = first;
  MatMul(x, 1, moved, nullptr, false, first.View());
  MatMul(x, 1, packed, nullptr, false, second.View());
  EXPECT_TRUE(first.SameBits(second));
}

// Whatever the parts and their order, the same bits as in one go.
TEST_P(MatMulTest, PacksInParts) {
  for (const bool transposed : {false, true}) {
    for (const auto& [n, k, heads] :
         {std::tuple{200, 21, 1}, {33, 7, 3}, {1, 300, 2}, {0, 5, 1}, {5, 0, 1}}) {
      const Weight weight(&random_, heads * (transposed ? n : k), transposed ? k : n, arithmetic());
      PackedMatrix whole, parts;
      Pack(weight.view, transposed, arithmetic(), &whole, heads);
      parts.Reserve(PackedBytes(k, n, arithmetic(), heads));
      for (const int64_t part : {2, 0, 1}) {
        Pack(weight.view, transposed, arithmetic(), &parts, heads, {part, 3});
      }
      RandomRows x(&random_, 3, heads * k, arithmetic(), false);
      Result want(&random_, 3, heads * n, DType::kFloat32);
      Result got = want;
      MatMul(x.View(), 3, whole, nullptr, false, want.View());
      MatMul(x.View(), 3, parts, nullptr, false, got.View());
      EXPECT_TRUE(got.SameBits(want)) << n << " x " << k << ", " << heads << " heads";
    }
  }
}

TEST_P(MatMulTest, SaysBeforehandWhatPackingTakes) {
  for (const auto& [n, k] : {std::pair{4, 4}, {33, 7}, {1, 300}, {0, 5}, {5, 0}}) {
    const Weight weight(&random_, 2 * n, k, arithmetic());
    PackedMatrix packed;
    Pack(weight.view, true, arithmetic(), &packed, 2);
    EXPECT_EQ(PackedBytes(k, n, arithmetic(), 2), packed.bytes()) << n << " x " << k;
  }
}

TEST_P(MatMulTest, ErrorsNameWhatCame) {
  const Weight weight(&random_, 4, 4, DType::kFloat32);
  PackedMatrix packed;
  EXPECT_THROW(Pack(weight.view, true, DType::kInt32, &packed), Error);
  EXPECT_THROW(Pack(weight.view, true, arithmetic(), &packed, 3), Error);
  EXPECT_THROW(Pack(weight.view, true, arithmetic(), &packed, 1, {2, 2}), Error);
  EXPECT_THROW(Pack(weight.view, true, arithmetic(), &packed, 1, {0, 2}), Error) << "no room";
  Pack(weight.view, true, arithmetic(), &packed);
  Result y(&random_, 1, 4, DType::kFloat32);
  const ConstRows x{weight.data.data(), 4, DType::kFloat32};
  EXPECT_THROW(MatMul(x, 1, packed, {2, 5}, nullptr, false, y.View()), Error);
  const ConstRows integers{weight.data.data(), 4, DType::kInt64};
  float sums[16];
  EXPECT_THROW(MatMulTransposed(integers, 1, x, 1, 1, arithmetic(), false, sums, 4), Error);
  EXPECT_THROW(SumOverRows(integers, 4, 1, false, sums), Error);
  EXPECT_THROW(MatMul(integers, 1, packed, nullptr, false, y.View()), Error);
}

INSTANTIATE_TEST_SUITE_P(Targets, MatMulTest,
                         testing::Combine(testing::ValuesIn(AvailableCpuTargets()),
                                          testing::Values(DType::kFloat32, DType::kBFloat16)),
                         [](const testing::TestParamInfo<MatMulTest::ParamType>& param) {
                           return std::string(Name(std::get<0>(param.param))) + "_" +
                                  std::string(Name(std::get<1>(param.param)));
                         });

}  // namespace
}  // namespace turbolstm
