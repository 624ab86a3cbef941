// Which sums over rows need not mind the padding of ragged batches.

#include "execution/zero_padding.h"

#include <gtest/gtest.h>

#include "execution/device_lowering.h"
#include "graph/builder.h"
#include "plan/recurrent_graphs.h"

namespace turbolstm {
namespace {

int64_t OuterProducts(const LoweredGraph& graph) {
  int64_t count = 0;
  ForEachStage(graph, [&](const Stage& stage) { count += stage.op == Op::kOuter ? 1 : 0; });
  return count;
}

// Gradients lie where pre-activations with biases lay, whose padded rows were not zero.
TEST(ZeroPadding, GradientsOfWeightsSumGradientsOfGates) {
  for (const char* cell : {"lstm", "gru", "rnn_tanh", "layer_norm_lstm"}) {
    RecurrentOptions options = SmallOptions(cell);
    options.bidirectional = true;
    options.layers = 2;
    const LoweredGraph lowered =
        LowerForDevice(WithGradients(RecurrentGraph(options)), Precision::kBFloat16);
    EXPECT_EQ(static_cast<int64_t>(SumsWithZeroPadding(lowered).size()), OuterProducts(lowered))
        << cell;
  }
}

// outer(W x + b, x): the product is b at padded rows.
TEST(ZeroPadding, ProductsWithBiasesLeaveNone) {
  for (const bool biased : {false, true}) {
    Graph graph;
    Builder builder(&graph);
    const Value x = builder.Input("x", Domain::kStep, {3});
    Value y = MatMul(builder.Parameter("w", {4, 3}), x);
    if (biased) y = y + builder.Parameter("b", {4});
    graph.AddOutput("sum", builder.Apply(Op::kOuter, {y, x}).id());
    const LoweredGraph lowered = LowerForDevice(graph, Precision::kFloat32);
    ASSERT_EQ(OuterProducts(lowered), 1);
    EXPECT_EQ(SumsWithZeroPadding(lowered).size(), biased ? 0u : 1u);
  }
}

}  // namespace
}  // namespace turbolstm
