#include "base/half_numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace turbolstm {
namespace {

float Rounded(float value, DType dtype) {
  uint16_t bits = 0;
  float back = 0;
  RoundToHalf({&value, 1}, dtype, {&bits, 1});
  WidenHalf({&bits, 1}, dtype, {&back, 1});
  return back;
}

TEST(HalfNumbers, RoundToNearestTiesToEven) {
  EXPECT_EQ(Rounded(1 + 0x1p-8f, DType::kBFloat16), 1.0f);
  EXPECT_EQ(Rounded(1 + 0x3p-8f, DType::kBFloat16), 1 + 0x1p-6f);
  EXPECT_EQ(Rounded(1 + 0x1.8p-8f, DType::kBFloat16), 1 + 0x1p-7f);
  EXPECT_EQ(Rounded(1 + 0x1p-11f, DType::kFloat16), 1.0f);
  EXPECT_EQ(Rounded(1 + 0x3p-11f, DType::kFloat16), 1 + 0x1p-9f);
  EXPECT_EQ(Rounded(-65504.0f, DType::kFloat16), -65504.0f);
  EXPECT_EQ(Rounded(0x1p-24f, DType::kFloat16), 0x1p-24f) << "the least subnormal number";
}

TEST(HalfNumbers, KeepWhatIsNoNumber) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Rounded(70000.0f, DType::kFloat16), kInfinity);
  EXPECT_EQ(Rounded(70000.0f, DType::kBFloat16), 70144.0f);
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    EXPECT_EQ(Rounded(-kInfinity, dtype), -kInfinity);
    EXPECT_TRUE(std::isnan(Rounded(std::nanf(""), dtype)));
  }
}

TEST(HalfNumbers, GoBackToTheSameBits) {
  std::vector<uint16_t> bits(65536), again(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  std::vector<float> values(bits.size());
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    WidenHalf(bits, dtype, values);
    RoundToHalf(values, dtype, again);
    for (size_t i = 0; i < bits.size(); ++i) {
      if (std::isnan(values[i])) continue;
      ASSERT_EQ(again[i], bits[i]);
    }
  }
}

TEST(HalfNumbers, RefuseOtherTypesAndSizes) {
  const float value = 1;
  std::vector<uint16_t> bits(2);
  EXPECT_THROW(RoundToHalf({&value, 1}, DType::kFloat32, bits), Error);
  EXPECT_THROW(RoundToHalf({&value, 1}, DType::kFloat16, bits), Error);
}

}  // namespace
}  // namespace turbolstm
