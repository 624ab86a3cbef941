#include "ops/pointwise/affine.h"

#include <gtest/gtest.h>

#include "ops/pointwise/testing/sample_programs.h"

namespace turbolstm {
namespace {

constexpr InputKind kElement = InputKind::kElement;

// Inputs f, x, h: h' = f * h + (1 - f) * x, and tanh(h') beside it.
const PointwiseProgram kGated{{kElement, kElement, kElement},
                              {},
                              {{PointwiseOp::kMul, 0, 2},
                               {PointwiseOp::kOneMinus, 0},
                               {PointwiseOp::kMul, 4, 1},
                               {PointwiseOp::kAdd, 3, 5},
                               {PointwiseOp::kTanh, 6}},
                              {6, 7}};

TEST(Affine, AGatedSumIsLinearInItsState) {
  const auto found = FindAffine(kGated, 2, 0);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->needed, (std::vector<bool>{true, true, true, true, true, true, true, false}));
  EXPECT_EQ(found->follows,
            (std::vector<bool>{false, false, true, true, false, false, true, false}));
}

TEST(Affine, AnOutputBesideMayBeAnything) {
  EXPECT_FALSE(FindAffine(kGated, 2, 1).has_value());
}

TEST(Affine, CoefficientsMustNotDependOnTheState) {
  // Of f, f * h is linear, (1 - f) * x too.
  EXPECT_TRUE(FindAffine(kGated, 0, 0).has_value());
  const PointwiseProgram square{{kElement}, {}, {{PointwiseOp::kMul, 0, 0}}, {1}};
  EXPECT_FALSE(FindAffine(square, 0, 0).has_value());
  const PointwiseProgram over{{kElement, kElement}, {}, {{PointwiseOp::kDiv, 0, 1}}, {2}};
  EXPECT_TRUE(FindAffine(over, 0, 0).has_value());
  EXPECT_FALSE(FindAffine(over, 1, 0).has_value());
  const PointwiseProgram chosen{
      {kElement, kElement, kElement}, {}, {{PointwiseOp::kSelect, 0, 1, 2}}, {3}};
  EXPECT_FALSE(FindAffine(chosen, 0, 0).has_value());
  EXPECT_TRUE(FindAffine(chosen, 1, 0).has_value());
}

TEST(Affine, WhatIsNotReadIsNoState) {
  const PointwiseProgram copy{{kElement, kElement}, {}, {{PointwiseOp::kCopy, 0}}, {2}};
  EXPECT_FALSE(FindAffine(copy, 1, 0).has_value());
  EXPECT_TRUE(FindAffine(copy, 0, 0).has_value());
}

TEST(Affine, LstmIsLinearInItsCellState) {
  const PointwiseProgram lstm = LstmForwardProgram();
  EXPECT_TRUE(FindAffine(lstm, 4, 4).has_value());
  EXPECT_FALSE(FindAffine(lstm, 4, 6).has_value());
  EXPECT_FALSE(FindAffine(lstm, 0, 4).has_value());
}

}  // namespace
}  // namespace turbolstm
