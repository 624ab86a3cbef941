// Inputs far outside the range of the activations.

#include <gtest/gtest.h>

#include <cmath>

#include "plan/recurrent_graphs.h"
#include "testing/dice.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

// Products that fp32 holds exactly, so that saturation is what is tested, not cancellation.
TEST(LargeValues, SaturateLikeTheReference) {
  for (const char* cell : {"lstm", "gru", "gru_original", "rnn_tanh", "peephole_lstm"}) {
    RecurrentOptions options = SmallOptions(cell);
    options.size.bias = true;
    const Graph graph = WithGradients(RecurrentGraph(options));
    Bindings bindings = RandomBindings(graph, 1, {.steps = 6, .batch = 4, .ragged = true});
    Dice dice(2);
    for (double& v : bindings.values.at("rnn.weight_ih_l0").data) {
      v = static_cast<double>(dice.Integer(-8, 8)) / 8;
    }
    for (double& v : bindings.values.at("x").data) {
      if (!std::isnan(v)) v = 1e4 * static_cast<double>(dice.Integer(-3, 3));
    }
    const Outputs got = Execute(graph, bindings, {.streams = 2});
    for (const auto& [name, values] : got) {
      for (const float v : values) ASSERT_TRUE(std::isfinite(v)) << cell << " " << name;
    }
    EXPECT_EQ(Differences(graph, bindings, got, kFloat32Tolerance), "") << cell;
  }
}

}  // namespace
}  // namespace turbolstm
