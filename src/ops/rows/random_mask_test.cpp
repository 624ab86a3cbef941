#include "ops/rows/random_mask.h"

#include <gtest/gtest.h>

#include <vector>

#include "ops/cpu_target.h"

namespace turbolstm {
namespace {

class RandomMask : public testing::TestWithParam<CpuTarget> {
 protected:
  void SetUp() override { SetCpuTarget(GetParam()); }
  void TearDown() override { SetCpuTarget(AvailableCpuTargets().back()); }
};

INSTANTIATE_TEST_SUITE_P(, RandomMask, testing::ValuesIn(AvailableCpuTargets()),
                         [](const auto& target) { return std::string(Name(target.param)); });

// From any place within a block, over any number of elements, and nothing beyond them; also where
// the number of the block needs its upper half.
TEST_P(RandomMask, IsThatOfTheSiteElementByElement) {
  const RandomSite site{.seed = 0x123456789abcdef0, .step = 17, .site = 3};
  constexpr float kUntouched = -1;
  for (const uint64_t origin : {uint64_t{0}, (uint64_t{1} << 34) - 40}) {
    for (uint64_t first = origin; first < origin + 5; ++first) {
      for (int64_t n = 0; n < 150; ++n) {
        std::vector<float> got(static_cast<size_t>(n) + 1, kUntouched);
        DrawRandomMask(site, first, n, 0.9, 4.0f, got.data());
        std::vector<float> want;
        for (int64_t i = 0; i < n; ++i) {
          want.push_back(site.Uniform(first + static_cast<uint64_t>(i)) < 0.9 ? 4.0f : 0.0f);
        }
        want.push_back(kUntouched);
        ASSERT_EQ(got, want) << "first " << first << ", n " << n;
      }
    }
  }
}

// A hair above a draw, which as a float is the draw.
TEST_P(RandomMask, ComparesWithTheProbabilityItself) {
  const RandomSite site{.seed = 1};
  const float draw = site.Uniform(8);
  for (const int64_t n : {1, 4}) {
    std::vector<float> got(4, -1);
    DrawRandomMask(site, 8, n, double{draw} * (1 + 1e-12), 1, got.data());
    EXPECT_EQ(got[0], 1) << n;
    DrawRandomMask(site, 8, n, draw, 1, got.data());
    EXPECT_EQ(got[0], 0) << n;
  }
}

}  // namespace
}  // namespace turbolstm
