#include "ops/rows/reductions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ops/cpu_target.h"

namespace turbolstm {
namespace {

class RowReductions : public testing::TestWithParam<CpuTarget> {
 protected:
  void SetUp() override { SetCpuTarget(GetParam()); }
  void TearDown() override { SetCpuTarget(AvailableCpuTargets().back()); }
};

INSTANTIATE_TEST_SUITE_P(, RowReductions, testing::ValuesIn(AvailableCpuTargets()),
                         [](const auto& target) { return std::string(Name(target.param)); });

TEST_P(RowReductions, AreNearThoseInDoublePrecision) {
  constexpr double kUnits = 8 * 0x1p-24;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(-30, 10);  // below 0, which lanes beyond the end hold
  for (size_t n = 0; n < 100; ++n) {
    std::vector<float> x(n);
    for (float& v : x) v = normal(random);
    double sum = 0;
    float most = -std::numeric_limits<float>::infinity();
    for (const float v : x) sum += double{v}, most = std::max(most, v);
    const auto count = static_cast<int64_t>(n);
    EXPECT_NEAR(SumOfRow(x.data(), count), sum, 1e-12 * std::abs(sum)) << n;
    EXPECT_EQ(MaxOfRow(x.data(), count), most) << n;
    if (n == 0) continue;

    double sum_of_exp = 0;
    for (const float v : x) sum_of_exp += std::exp(double{v} - most);
    EXPECT_NEAR(SumOfExpOfRow(x.data(), count, most), sum_of_exp, kUnits * sum_of_exp) << n;
    std::vector<float> y(n + 1, -1);
    ScaledExpOfRow(x.data(), count, most, 0.5f, y.data());
    for (size_t i = 0; i < n; ++i) {
      // The difference is rounded before its exponential is taken.
      const double want = 0.5 * std::exp(double{x[i]} - most);
      EXPECT_NEAR(y[i], want, want * kUnits * (1 + most - x[i])) << n;
    }
    EXPECT_EQ(y[n], -1) << "beyond the end";
  }
}

}  // namespace
}  // namespace turbolstm
