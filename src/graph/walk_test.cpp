#include "graph/walk.h"

#include <gtest/gtest.h>

#include <vector>

namespace turbolstm {
namespace {

using Kind = Link::Kind;

TEST(Walk, GoesForwardFromTheFirstAndInReverseFromTheLastValidStep) {
  const Walk forward(3, Direction::kForward);
  EXPECT_EQ(forward.Position(2), 2);
  EXPECT_EQ(forward.Read(2, 1), (Link{Kind::kStep, 1}));
  EXPECT_EQ(forward.Read(1, 3), (Link{Kind::kInit, 1}));
  const Walk reverse(3, Direction::kReverse);
  EXPECT_EQ(reverse.Position(2), 0);
  EXPECT_EQ(reverse.Read(1, 1), (Link{Kind::kStep, 2}));
}

TEST(Walk, BeginsAnewAtAReset) {
  // The flags of one of two sequences.
  const std::vector<uint8_t> resets = {0, 9, 0, 9, 1, 9, 0, 9};
  const Walk forward(4, Direction::kForward, resets.data(), 2);
  EXPECT_EQ(forward.Read(1, 1), (Link{Kind::kStep, 0}));
  EXPECT_EQ(forward.Read(2, 1), (Link{Kind::kInit, 0}));
  EXPECT_EQ(forward.Read(3, 2), (Link{Kind::kInit, 1}));
  EXPECT_EQ(forward.Read(3, 1), (Link{Kind::kStep, 2}));
}

TEST(Walk, ReadsNothingBehindAResetToZero) {
  const std::vector<uint8_t> resets = {0, 0, kResetToZero, 0};
  const Walk forward(4, Direction::kForward, resets.data());
  EXPECT_EQ(forward.Read(0, 1), (Link{Kind::kInit, 0}));
  EXPECT_EQ(forward.Read(2, 1), Link{});
  EXPECT_EQ(forward.Read(3, 2), Link{});
  EXPECT_EQ(forward.Read(3, 1), (Link{Kind::kStep, 2}));
  EXPECT_EQ(forward.ReadAhead(1, 1), Link{});
  EXPECT_EQ(Walk(4, Direction::kReverse, resets.data()).Read(1, 1), Link{});
}

// All walks of up to five steps with all resets.
template <typename Check>
void ForEachWalk(Check check) {
  for (int64_t length = 0; length <= 5; ++length) {
    for (int flags = 0; flags < (1 << length); ++flags) {
      std::vector<uint8_t> resets(5);
      for (int t = 0; t < 5; ++t) resets[static_cast<size_t>(t)] = (flags >> t) & 1;
      for (const Direction direction : {Direction::kForward, Direction::kReverse}) {
        check(Walk(length, direction, resets.data()));
      }
    }
  }
}

TEST(Walk, ReadAheadIsTheAdjointOfRead) {
  ForEachWalk([](const Walk& walk) {
    for (int64_t delay = 1; delay <= 6; ++delay) {
      for (int64_t early = 0; early < walk.length(); ++early) {
        const Link ahead = walk.ReadAhead(early, delay);
        for (int64_t late = 0; late < walk.length(); ++late) {
          const Link back = walk.Read(late, delay);
          const bool finds = back == Link{Kind::kStep, walk.Position(early)};
          EXPECT_EQ(finds, (ahead == Link{Kind::kStep, walk.Position(late)}));
        }
      }
    }
  });
}

TEST(Walk, ReadFinalIsTheAdjointOfReadsBehindTheEnd) {
  ForEachWalk([](const Walk& walk) {
    for (int64_t delay = 1; delay <= 6; ++delay) {
      for (int64_t u = 0; u < walk.length(); ++u) {
        const Link row = walk.ReadFinal(u, delay);
        for (int64_t j = 0; j < delay; ++j) {
          const Link found = walk.Read(walk.length() + j, delay);
          const bool finds = found == Link{Kind::kStep, walk.Position(u)};
          EXPECT_EQ(finds, (row == Link{Kind::kInit, j}));
        }
      }
    }
  });
}

TEST(Walk, InitialRowsAreWithinTheDelay) {
  ForEachWalk([](const Walk& walk) {
    for (int64_t delay = 1; delay <= 6; ++delay) {
      for (int64_t u = 0; u < walk.length() + delay; ++u) {
        const Link link = walk.Read(u, delay);
        const int64_t bound = link.kind == Kind::kInit ? delay : walk.length();
        EXPECT_TRUE(link.index >= 0 && link.index < bound);
      }
    }
  });
}

}  // namespace
}  // namespace turbolstm
