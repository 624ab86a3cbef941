// Which loops may run at once on a device.

#include "execution/turns.h"

#include <gtest/gtest.h>

#include "execution/device_lowering.h"
#include "plan/recurrent_graphs.h"

namespace turbolstm {
namespace {

// Pairs of loops with the same turn.
int LoopsAtOnce(const RecurrentOptions& options) {
  const LoweredGraph lowered =
      LowerForDevice(WithGradients(RecurrentGraph(options)), Precision::kBFloat16);
  const std::vector<int64_t> turns = Turns(lowered);
  EXPECT_EQ(turns.size(), lowered.groups.size());
  int pairs = 0;
  for (size_t g = 1; g < turns.size(); ++g) {
    EXPECT_GE(turns[g], turns[g - 1]);
    EXPECT_LE(turns[g], turns[g - 1] + 1);
    if (turns[g] != turns[g - 1]) continue;
    EXPECT_TRUE(lowered.groups[g - 1].is_loop() && lowered.groups[g].is_loop());
    ++pairs;
  }
  return pairs;
}

TEST(Turns, BothDirectionsOfALayerRunAtOnce) {
  RecurrentOptions options = SmallOptions("lstm");
  options.layers = 2;
  EXPECT_EQ(LoopsAtOnce(options), 0) << "a layer reads the one below";
  options.bidirectional = true;
  EXPECT_EQ(LoopsAtOnce(options), 4) << "forward and backward, in two layers";
}

}  // namespace
}  // namespace turbolstm
