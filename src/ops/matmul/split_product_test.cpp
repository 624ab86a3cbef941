#include "ops/matmul/split_product.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace turbolstm {
namespace {

double Sum(const std::array<BFloat16, kSplitPieces>& pieces) {
  double sum = 0;
  for (const BFloat16 piece : pieces) sum += double{static_cast<float>(piece)};
  return sum;
}

// Any finite number, of all signs and sizes alike.
float AnyFloat(std::mt19937* random) {
  float x = std::numeric_limits<float>::infinity();
  while (!std::isfinite(x)) x = std::bit_cast<float>(static_cast<uint32_t>((*random)()));
  return x;
}

TEST(SplitProduct, PiecesAddUpToTheNumber) {
  std::mt19937 random(1);
  std::vector<float> numbers = {0.0f,
                                -0.0f,
                                1.0f,
                                1.0f + 0x1p-8f,
                                std::numeric_limits<float>::max(),
                                std::numeric_limits<float>::lowest(),
                                std::numeric_limits<float>::min(),
                                std::numeric_limits<float>::denorm_min(),
                                std::nextafter(1.0f, 0.0f)};
  for (int i = 0; i < 1'000'000; ++i) numbers.push_back(AnyFloat(&random));
  for (const float x : numbers) {
    const auto pieces = SplitFloat(x);
    const double missed = std::abs(Sum(pieces) - double{x});
    ASSERT_LE(missed, std::abs(x) >= 0x1p-110f ? 0.0 : 0x1p-134) << x;
    ASSERT_LE(std::abs(static_cast<float>(pieces[1])), 0x1p-7f * std::abs(x) + 0x1p-133f) << x;
    if (std::abs(x) > kLargestSplitPiece) continue;
    ASSERT_LE(std::abs(static_cast<float>(pieces[1])), 0x1p-8f * std::abs(x) + 0x1p-133f) << x;
    ASSERT_LE(std::abs(static_cast<float>(pieces[2])), 0x1p-17f * std::abs(x) + 0x1p-133f) << x;
  }
}

TEST(SplitProduct, InfinityAndNotANumberStay) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Sum(SplitFloat(infinity)), infinity);
  EXPECT_EQ(Sum(SplitFloat(-infinity)), -infinity);
  EXPECT_TRUE(std::isnan(Sum(SplitFloat(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(SplitProduct, TermsMissAtMostOneRoundingOfFp32) {
  // As docs/precision.md states it.
  constexpr double kMissed = 0x1p-24 * (1 + 0x1p-9);
  std::mt19937 random(2);
  std::uniform_real_distribution<float> mantissa(1.0f, 2.0f);
  double most = 0;
  for (int i = 0; i < 1'000'000; ++i) {
    const float a = mantissa(random), b = -mantissa(random);
    const auto as = SplitFloat(a), bs = SplitFloat(b);
    double sum = 0;
    for (const SplitTerm& term : kSplitTerms) {
      sum += double{static_cast<float>(as[static_cast<size_t>(term.a)])} *
             double{static_cast<float>(bs[static_cast<size_t>(term.b)])};
    }
    const double exact = double{a} * double{b};
    most = std::max(most, std::abs((sum - exact) / exact));
  }
  EXPECT_LE(most, kMissed);
  EXPECT_GE(most, kMissed / 16) << "a bound that says nothing";
}

TEST(SplitProduct, PaysWhereThereIsMuchToMultiply) {
  const auto pays = [](int64_t m, int64_t n, int64_t k, bool outer) {
    return IsSplit({m, n, k, 1, outer}, SplitRule::kWherePays);
  };
  EXPECT_TRUE(pays(16384, 2048, 512, false));
  EXPECT_TRUE(pays(256, 4096, 1024, false));
  EXPECT_TRUE(pays(2048, 512, 16384, true));
  EXPECT_FALSE(pays(16, 4096, 1024, false)) << "its weights cost more than they save";
  EXPECT_FALSE(pays(64, 1024, 256, false));
  EXPECT_FALSE(pays(16384, 2, 512, false));
  EXPECT_FALSE(pays(64, 64, 16384, true));
  for (const SplitRule rule : {SplitRule::kWherePays, SplitRule::kAlways}) {
    EXPECT_FALSE(IsSplit({0, 4096, 4096}, rule));
    EXPECT_FALSE(IsSplit({4096, 0, 4096}, rule));
    EXPECT_FALSE(IsSplit({4096, 4096, 0}, rule));
    EXPECT_FALSE(IsSplit({4096, 4096, 4096, 0}, rule));
  }
  EXPECT_TRUE(IsSplit({1, 1, 1}, SplitRule::kAlways));
}

TEST(SplitProduct, WhatPaysAtASizePaysAtLargerOnes) {
  std::mt19937 random(3);
  std::uniform_int_distribution<int> exponent(0, 15);
  int paid = 0;
  for (int i = 0; i < 100'000; ++i) {
    const ProductSize size{int64_t{1} << exponent(random), int64_t{1} << exponent(random),
                           int64_t{1} << exponent(random), 1, i % 2 == 0};
    if (!IsSplit(size, SplitRule::kWherePays)) continue;
    ++paid;
    ProductSize larger = size;
    larger.m += exponent(random);
    larger.n += exponent(random);
    larger.k += exponent(random);
    larger.batches += exponent(random);
    ASSERT_TRUE(IsSplit(larger, SplitRule::kWherePays)) << size.m << " " << size.n << " " << size.k;
  }
  EXPECT_GT(paid, 1000);
}

TEST(SplitProduct, PiecesAreMadeOfHalfTheRowsOrFewer) {
  EXPECT_EQ(SplitRowsAtOnce(0), 0);
  EXPECT_EQ(SplitRowsAtOnce(2048), 2048);
  EXPECT_EQ(SplitRowsAtOnce(2049), 2048);
  EXPECT_EQ(SplitRowsAtOnce(6001), 3072);
  EXPECT_EQ(SplitRowsAtOnce(kSplitRowsOfSum), kSplitRowsOfSum / 2);
  EXPECT_EQ(SplitRowsAtOnce(int64_t{1} << 33), kSplitRowsOfSum);
}

}  // namespace
}  // namespace turbolstm
