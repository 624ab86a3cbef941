#include "plan/row_layout.h"

#include <gtest/gtest.h>

#include "base/error_test.h"

namespace turbolstm {
namespace {

using Longs = std::vector<int64_t>;

Longs Lengths(const RowLayout& layout) {
  Longs lengths;
  for (int64_t b = 0; b < layout.batch(); ++b) lengths.push_back(layout.length(b));
  return lengths;
}

Longs Sequences(const RowLayout& layout) {
  Longs sequences;
  for (int64_t b = 0; b < layout.batch(); ++b) sequences.push_back(layout.sequence(b));
  return sequences;
}

Longs Counts(const RowLayout& layout) {
  Longs counts;
  for (int64_t t = 0; t < layout.steps(); ++t) counts.push_back(layout.count(t));
  return counts;
}

TEST(RowLayout, WithoutLengthsIsTheCallersLayout) {
  const RowLayout layout(3, 2);
  EXPECT_TRUE(layout.dense());
  EXPECT_EQ(layout.rows(), 6);
  EXPECT_EQ(Counts(layout), (Longs{2, 2, 2}));
  EXPECT_EQ(layout.offset(2), 4);
  EXPECT_EQ(Sequences(layout), (Longs{0, 1}));
}

TEST(RowLayout, PutsLongerSequencesFirstAndKeepsTheOrderOfEqualOnes) {
  const RowLayout layout(4, 5, std::vector<int32_t>{1, 3, 0, 3, 4});
  EXPECT_FALSE(layout.dense());
  EXPECT_EQ(Sequences(layout), (Longs{4, 1, 3, 0, 2}));
  EXPECT_EQ(Lengths(layout), (Longs{4, 3, 3, 1, 0}));
  EXPECT_EQ(Counts(layout), (Longs{4, 3, 3, 1}));
  EXPECT_EQ(layout.offset(2), 7);
  EXPECT_EQ(layout.rows(), 11);
}

TEST(RowLayout, IsDenseWhenAllLengthsAreFull) {
  const RowLayout layout(2, 3, std::vector<int32_t>{2, 2, 2});
  EXPECT_TRUE(layout.dense());
  EXPECT_EQ(Sequences(layout), (Longs{0, 1, 2}));
}

TEST(RowLayout, MayHoldNothing) {
  EXPECT_EQ(RowLayout().rows(), 0);
  EXPECT_EQ(RowLayout(0, 3).rows(), 0);
  EXPECT_EQ(RowLayout(3, 0).rows(), 0);
  const RowLayout zeros(3, 2, std::vector<int32_t>{0, 0});
  EXPECT_EQ(zeros.rows(), 0);
  EXPECT_EQ(Counts(zeros), (Longs{0, 0, 0}));
}

// The walk of a place is that of the caller's sequence there.
TEST(RowLayout, MovesResetsAlongWithTheirSequences) {
  const std::vector<uint8_t> resets = {0, 0, 0, 1, 1, 0};  // [3, 2]
  const RowLayout layout(3, 2, std::vector<int32_t>{2, 3}, resets);
  ASSERT_EQ(Sequences(layout), (Longs{1, 0}));
  const auto reads = [&](int64_t place, Direction direction) {
    return layout.WalkOf(place, direction).Read(1, 1);
  };
  const Link anew{Link::Kind::kInit, 0};
  EXPECT_EQ(reads(0, Direction::kForward), anew);                          // sequence 1, t = 1
  EXPECT_EQ(reads(1, Direction::kForward), (Link{Link::Kind::kStep, 0}));  // sequence 0, t = 1
  EXPECT_EQ(reads(0, Direction::kReverse), anew);                          // sequence 1, t = 1
  EXPECT_EQ(reads(1, Direction::kReverse), (Link{Link::Kind::kStep, 1}));  // sequence 0, t = 0
  EXPECT_EQ(layout.WalkOf(0, Direction::kForward).Read(2, 1), (Link{Link::Kind::kStep, 1}));
}

std::string ErrorOf(int64_t steps, int64_t batch, const std::vector<int32_t>& lengths,
                    const std::vector<uint8_t>& resets) {
  return turbolstm::ErrorOf([&] { RowLayout(steps, batch, lengths, resets); });
}

TEST(RowLayout, RefusesWhatDoesNotFit) {
  EXPECT_EQ(ErrorOf(-1, 2, {}, {}), "[shape] got -1 steps and 2 sequences, wants >= 0");
  EXPECT_EQ(ErrorOf(3, 2, {1}, {}), "[lengths] got 1, wants 2");
  EXPECT_EQ(ErrorOf(3, 2, {1, 4}, {}), "[lengths] entry 1 is 4, wants 0 to 3");
  EXPECT_EQ(ErrorOf(3, 2, {-1, 3}, {}), "[lengths] entry 0 is -1, wants 0 to 3");
  EXPECT_EQ(ErrorOf(3, 2, {}, {0, 1}), "[resets] got 2, wants 3 x 2");
  EXPECT_EQ(ErrorOf(int64_t{1} << 40, int64_t{1} << 40, {}, {}),
            "[shape] got 1099511627776 steps and 1099511627776 sequences: too many rows");
}

}  // namespace
}  // namespace turbolstm
