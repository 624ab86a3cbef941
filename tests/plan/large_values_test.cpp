// Inputs far outside the range of the activations.

#include <gtest/gtest.h>

#include <cmath>

#include "plan/recurrent_graphs.h"

namespace turbolstm {
namespace {

TEST(LargeValues, SaturateLikeTheReference) {
  for (const char* cell : {"lstm", "gru", "gru_original", "rnn_tanh", "peephole_lstm"}) {
    const Graph graph = WithGradients(RecurrentGraph(SmallOptions(cell)));
    const Bindings bindings = LargeBindings(graph);
    const Outputs got = Execute(graph, bindings, {.streams = 2});
    for (const auto& [name, values] : got) {
      for (const float v : values) ASSERT_TRUE(std::isfinite(v)) << cell << " " << name;
    }
    EXPECT_EQ(Differences(graph, bindings, got, kFloat32Tolerance), "") << cell;
  }
}

}  // namespace
}  // namespace turbolstm
