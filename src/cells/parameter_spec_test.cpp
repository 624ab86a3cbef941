#include "cells/parameter_spec.h"

#include <gtest/gtest.h>

#include <cmath>

namespace turbolstm {
namespace {

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments MomentsOf(const std::vector<float>& values) {
  Moments m;
  for (const float v : values) m.mean += v;
  m.mean /= static_cast<double>(values.size());
  for (const float v : values) m.deviation += (v - m.mean) * (v - m.mean);
  m.deviation = std::sqrt(m.deviation / static_cast<double>(values.size()));
  return m;
}

TEST(DrawParameter, UniformFanStaysInItsBounds) {
  const std::vector<float> values =
      DrawParameter({"w", {64, 256}, Initializer::UniformFan(16), {}}, 1);
  for (const float v : values) EXPECT_LE(std::abs(v), 0.25f);
  const Moments m = MomentsOf(values);
  EXPECT_NEAR(m.mean, 0.0, 0.005);
  EXPECT_NEAR(m.deviation, 0.25 / std::sqrt(3.0), 0.005);
}

TEST(DrawParameter, NormalHasItsMoments) {
  const Moments m =
      MomentsOf(DrawParameter({"w", {64, 256}, Initializer::Normal(2.0, 0.5), {}}, 1));
  EXPECT_NEAR(m.mean, 2.0, 0.02);
  EXPECT_NEAR(m.deviation, 0.5, 0.02);
}

TEST(DrawParameter, DependsOnSeedAndNameAlone) {
  const ParameterSpec a{"a", {8}, Initializer::UniformFan(4), {}};
  const ParameterSpec b{"b", {8}, Initializer::UniformFan(4), {}};
  EXPECT_EQ(DrawParameter(a, 1), DrawParameter(a, 1));
  EXPECT_NE(DrawParameter(a, 1), DrawParameter(a, 2));
  EXPECT_NE(DrawParameter(a, 1), DrawParameter(b, 1));
}

TEST(DrawParameter, EmptyShapesAreLegal) {
  EXPECT_TRUE(DrawParameter({"w", {0, 4}, Initializer::UniformFan(0), {}}, 1).empty());
}

}  // namespace
}  // namespace turbolstm
