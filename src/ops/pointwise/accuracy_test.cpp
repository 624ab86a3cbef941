// Every operator alone against double precision, over all magnitudes, on every CPU target.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/cpu_target.h"
#include "ops/pointwise/kernel.h"

namespace turbolstm {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Relative errors in units of 2^-24 (half a unit in the last place at worst). Below the normal
// range results may be flushed to 0, which `absolute` allows.
struct Tolerance {
  double relative;
  double absolute;
};

Tolerance ToleranceOf(PointwiseOp op) {
  constexpr double kTiny = std::numeric_limits<float>::min();
  switch (op) {
    case PointwiseOp::kExp:
      return {3, 0x1p-149};
    case PointwiseOp::kLog:
      return {3, 0};
    case PointwiseOp::kSigmoid:
      return {3.3, kTiny};  // 2e-7
    case PointwiseOp::kTanh:
      return {2.2, kTiny};
    case PointwiseOp::kSoftplus:
    case PointwiseOp::kLogSigmoid:
      return {4, kTiny};
    case PointwiseOp::kSin:
    case PointwiseOp::kCos:
      return {3, 1e-9};
    case PointwiseOp::kRsqrt:
      return {2, 0};
    default:
      return {1, 0x1p-149};
  }
}

// Floats of every exponent and both signs, and the special ones.
std::vector<float> Samples() {
  std::vector<float> samples{0.0f,       -0.0f,         1.0f,    -1.0f,   kInfinity,
                             -kInfinity, std::nanf(""), 1e38f,   -1e38f,  88.72f,
                             88.73f,     -87.3f,        -103.9f, -104.1f, 0x1p-149f};
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 9973) {
    samples.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (int i = -120000; i <= 120000; ++i) samples.push_back(static_cast<float>(i) * 1e-3f);
  return samples;
}

void ExpectClose(PointwiseOp op, float got, double want, const std::string& where) {
  const Tolerance tolerance = ToleranceOf(op);
  const double allowed = std::abs(want) * tolerance.relative * 0x1p-24 + tolerance.absolute;
  constexpr double kMax = std::numeric_limits<float>::max();
  if (std::isnan(want) || std::isnan(got)) {
    EXPECT_EQ(std::isnan(want), std::isnan(got)) << where << " got " << got << " want " << want;
  } else if (std::abs(want) > kMax - allowed || std::isinf(want)) {
    EXPECT_TRUE(std::isinf(got) || std::abs(want) < kMax * (1 + 1e-6)) << where << " got " << got;
    EXPECT_EQ(std::signbit(got), std::signbit(want)) << where;
  } else {
    EXPECT_LE(std::abs(got - want), allowed) << where << " got " << got << " want " << want;
  }
}

class PointwiseAccuracy : public testing::TestWithParam<CpuTarget> {
 protected:
  void SetUp() override { SetCpuTarget(GetParam()); }
  void TearDown() override { SetCpuTarget(AvailableCpuTargets().back()); }
};

INSTANTIATE_TEST_SUITE_P(, PointwiseAccuracy, testing::ValuesIn(AvailableCpuTargets()),
                         [](const auto& target) { return std::string(Name(target.param)); });

TEST_P(PointwiseAccuracy, OneOperand) {
  std::vector<float> x = Samples();
  const auto n = static_cast<int64_t>(x.size());
  std::vector<float> got(x.size());
  std::vector<double> want(x.size());
  const PointwiseSlot in{x.data(), n, DType::kFloat32};
  const PointwiseSlot out{got.data(), n, DType::kFloat32};
  const PointwiseSlot out64{want.data(), n, DType::kFloat64};
  for (int k = 0; k < kPointwiseOpCount; ++k) {
    const auto op = static_cast<PointwiseOp>(k);
    if (OperandCount(op) != 1) continue;
    const PointwiseProgram program{{InputKind::kElement}, {}, {{op, 0, 0, 0}}, {1}};
    InterpretPointwise(program)({1, n, &in, &out});
    RunPointwiseReference(program, {1, n, &in, &out64});
    for (int64_t i = 0; i < n && !HasFailure(); ++i) {
      ExpectClose(op, got[i], want[i], fmt::format("{}({})", Name(op), x[i]));
    }
  }
}

TEST_P(PointwiseAccuracy, TwoAndThreeOperands) {
  const std::vector<float> special{0.0f,       -0.0f,         1.0f,  -2.5f, kInfinity,
                                   -kInfinity, std::nanf(""), 3e38f, 1e-30f};
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<float> a, b, c;
  for (float u : special) {
    for (float v : special) {
      a.push_back(u), b.push_back(v), c.push_back(normal(random));
    }
  }
  for (int i = 0; i < 1000; ++i) {
    a.push_back(normal(random)), b.push_back(normal(random)), c.push_back(normal(random));
  }
  const auto n = static_cast<int64_t>(a.size());
  std::vector<float> got(a.size());
  std::vector<double> want(a.size());
  const std::vector<PointwiseSlot> in{{a.data(), n}, {b.data(), n}, {c.data(), n}};
  const PointwiseSlot out{got.data(), n, DType::kFloat32};
  const PointwiseSlot out64{want.data(), n, DType::kFloat64};
  for (int k = 0; k < kPointwiseOpCount; ++k) {
    const auto op = static_cast<PointwiseOp>(k);
    if (OperandCount(op) == 1) continue;
    const PointwiseProgram program{std::vector<InputKind>(3, InputKind::kElement),
                                   {},
                                   {{op, 0, 1, OperandCount(op) == 3 ? 2 : 0}},
                                   {3}};
    InterpretPointwise(program)({1, n, in.data(), &out});
    RunPointwiseReference(program, {1, n, in.data(), &out64});
    for (int64_t i = 0; i < n && !HasFailure(); ++i) {
      ExpectClose(op, got[i], want[i], fmt::format("{}({}, {}, {})", Name(op), a[i], b[i], c[i]));
    }
  }
}

TEST_P(PointwiseAccuracy, SaturatesExactly) {
  std::vector<float> x{-kInfinity, -1e38f, -89.0f, 18.0f, 1e38f, kInfinity};
  const auto n = static_cast<int64_t>(x.size());
  std::vector<float> sigmoid(x.size()), tanh(x.size());
  const PointwiseSlot in{x.data(), n, DType::kFloat32};
  const std::vector<PointwiseSlot> out{{sigmoid.data(), n}, {tanh.data(), n}};
  const PointwiseProgram program{{InputKind::kElement},
                                 {},
                                 {{PointwiseOp::kSigmoid, 0, 0, 0}, {PointwiseOp::kTanh, 0, 0, 0}},
                                 {1, 2}};
  InterpretPointwise(program)({1, n, &in, out.data()});
  EXPECT_EQ(sigmoid, (std::vector<float>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(tanh, (std::vector<float>{-1, -1, -1, 1, 1, 1}));
}

}  // namespace
}  // namespace turbolstm
