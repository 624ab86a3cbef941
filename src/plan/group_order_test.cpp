#include "plan/group_order.h"

#include <gtest/gtest.h>

namespace turbolstm {
namespace {

using Kind = GroupNeeds::Kind;
using Order = std::vector<int32_t>;

TEST(GroupOrder, PutsOperandsDirectlyBeforeTheirReader) {
  // Two products and their loops; an output that needs both.
  const GroupNeeds groups{
      .needs = {{}, {}, {0}, {1}, {2, 3}},
      .kinds = {Kind::kOther, Kind::kOther, Kind::kLoop, Kind::kLoop, Kind::kOther},
      .outputs = {4}};
  EXPECT_EQ(OrderWithShortLives(groups), (Order{0, 2, 1, 3, 4}));
}

TEST(GroupOrder, PutsASumWhereItsOperandsAreComplete) {
  // Two layers that go back, each with the gradient of a weight; the first one's is asked for
  // first.
  const GroupNeeds groups{.needs = {{}, {0}, {1}, {0}},
                          .kinds = {Kind::kLoop, Kind::kLoop, Kind::kSum, Kind::kSum},
                          .outputs = {2, 3}};
  EXPECT_EQ(OrderWithShortLives(groups), (Order{0, 3, 1, 2}));
}

TEST(GroupOrder, RecomputesBehindAllElseThatALoopNeeds) {
  // The loop 3 needs the recomputed 0 and the loop 2, that the recomputed 1.
  const GroupNeeds groups{.needs = {{}, {}, {1}, {0, 2}},
                          .kinds = {Kind::kRecomputed, Kind::kRecomputed, Kind::kLoop, Kind::kLoop},
                          .outputs = {3}};
  EXPECT_EQ(OrderWithShortLives(groups), (Order{1, 2, 0, 3}));
}

TEST(GroupOrder, RecomputesTogetherWhatIsConnected) {
  // The loop 2 reads 0 only, and may overwrite it; the sum 3 reads 1, which is made of 0.
  const GroupNeeds groups{.needs = {{}, {0}, {0}, {1, 2}},
                          .kinds = {Kind::kRecomputed, Kind::kRecomputed, Kind::kLoop, Kind::kSum},
                          .outputs = {3}};
  EXPECT_EQ(OrderWithShortLives(groups), (Order{0, 1, 2, 3}));
}

}  // namespace
}  // namespace turbolstm
