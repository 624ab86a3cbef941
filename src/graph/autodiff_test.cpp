#include "graph/autodiff.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/text.h"
#include "testing/gradient_check.h"
#include "testing/random_bindings.h"
#include "testing/random_graph.h"

namespace turbolstm {
namespace {

// What the statements below may read; `p` and `q` are positive.
constexpr std::string_view kSources = R"(
input x: step[4]
input z: step[4]
input s: step[1]
input b: batch[4]
input history: batch[8]
input history1: batch[2]
index ids: step
parameter v: static[4]
parameter w: static[3, 4]
parameter u: static[4, 3]
parameter heads: static[2, 1, 2]
parameter table: static[5, 4]
half: static[1] = constant() number=0.5
sx: step[4] = sigmoid(x)
sz: step[4] = sigmoid(z)
p: step[4] = add(sx, half)
q: step[4] = add(sz, half)
)";

std::string Check(const std::string& statements, const RandomBindingsOptions& options, int order) {
  const Graph graph = ParseGraph(std::string(kSources) + statements + "\noutput y = y\n");
  std::string report;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    report += CheckGradients(graph, RandomBindings(graph, seed, options), seed, order);
  }
  return report;
}

class OperatorGradient : public testing::TestWithParam<const char*> {};

TEST_P(OperatorGradient, EqualsCentralDifferences) {
  EXPECT_EQ(Check(GetParam(), {.steps = 4, .batch = 3}, 1), "");
  EXPECT_EQ(Check(GetParam(), {.steps = 4, .batch = 3, .resets = 0.3}, 1), "");
}

TEST_P(OperatorGradient, HasAGradientItself) {
  EXPECT_EQ(Check(GetParam(), {.steps = 4, .batch = 3, .resets = 0.2}, 2), "");
}

INSTANTIATE_TEST_SUITE_P(
    Operators, OperatorGradient,
    testing::Values(
        "y: step[4] = identity(x)", "y: step[4] = add(x, z, b, v, s)", "y: step[4] = sub(x, v)",
        "y: step[4] = sub(b, s)", "y: step[4] = mul(x, z)", "y: step[4] = mul(s, b)",
        "y: step[4] = mul(x, x@1)", "y: step[4] = div(x, q)", "y: step[4] = max(x, z)",
        "y: step[4] = min(x, b)", "y: step[4] = neg(x)", "y: step[4] = sigmoid(x)",
        "y: step[4] = tanh(x)", "y: step[4] = relu(x)", "y: step[4] = softplus(x)",
        "y: step[4] = log_sigmoid(x)", "y: step[4] = exp(x)", "y: step[4] = log(p)",
        "y: step[4] = sqrt(p)", "y: step[4] = reciprocal(p)", "y: step[4] = abs(x)",
        "y: step[4] = sin(x)", "y: step[4] = cos(x)",
        "c: step[4] = greater(x, z)\ny: step[4] = select(c, z, b)",
        "m: step[4] = random_mask() number=0.5 scale=2\ny: step[4] = mul(m, x)",
        "y: step[3] = matmul(w, x)", "y: step[2] = matmul(heads, x)",
        "r: step[3] = matmul(w, z)\ny: step[4] = matmul_transposed(w, r)",
        "r: step[2] = matmul(heads, z)\ny: step[4] = matmul_transposed(heads, r)",
        "y: static[4, 4] = outer(x, z)", "y: static[4, 4] = outer(b, x@1(init=v))",
        "y: static[2, 2, 2] = outer(x, z) size=2", "y: static[3, 3] = product(w, u)",
        "y: static[4, 3] = transpose(w)", "y: static[2, 2, 1] = transpose(heads)",
        "y: step[2] = slice(x) begin=1 size=2", "y: static[1, 4] = slice(w) begin=2 size=1",
        "y: step[6] = pad(x) begin=1 size=6", "y: step[9] = concat(x, s, b)",
        "y: static[6, 4] = concat(w, w)", "y: step[1] = row_sum(x)", "y: batch[4] = sum_time(x)",
        "y: static[4] = sum_rows(x)", "y: static[4] = sum_rows(b)",
        "m: step[4] = first_max_mask(x)\ny: step[4] = mul(m, x)",
        "y: batch[8] = final(x@2(init=history))", "y: batch[4] = final(x@1(init=v)) reverse",
        "y: step[4] = final_grad(history) size=2", "y: batch[8] = final_init_grad(history) size=2",
        "y: batch[12] = init_grad(x) size=3", "y: step[4] = gather(table, ids)",
        "y: step[4] = gather(table, ids@1)", "y: static[5, 4] = scatter_add(ids, x) size=5",
        "y: static[5, 4] = scatter_add(ids@1, b) size=5", "y: step[4] = softmax(x)",
        "y: step[1] = cross_entropy(x, ids)", "y: step[1] = cross_entropy(x@1, ids@2)",
        "n: static[1] = row_count() domain=step\nl: batch[1] = lengths()\n"
        "share: batch[1] = div(l, n)\ny: step[4] = mul(x, share)"));

class DelayGradient : public testing::TestWithParam<const char*> {};

TEST_P(DelayGradient, EqualsCentralDifferences) {
  for (const int64_t steps : {0, 1, 2, 6}) {
    for (const double resets : {0.0, 0.3}) {
      for (const bool ragged : {false, true}) {
        const RandomBindingsOptions options{
            .steps = steps, .batch = 3, .ragged = ragged, .resets = resets};
        for (const int order : {1, 2}) EXPECT_EQ(Check(GetParam(), options, order), "");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Delays, DelayGradient,
    testing::Values(
        // Reads of inputs, in both directions.
        "y: step[4] = tanh(x@1(init=b))", "y: step[4] = tanh(x@2(init=history)) reverse",
        "y: step[4] = mul(x, x@4)", "y: step[4] = mul(x@1, x@1) reverse",
        // A source with one element, read delayed where four are wanted.
        "y: step[4] = mul(x, s@2(init=history1)) reverse",
        // A batch value and a parameter seen with a delay: not there at the first steps.
        "y: step[4] = mul(x, b@1)", "y: step[4] = mul(x, v@2) reverse",
        // Cycles.
        "r: step[4] = add(x, h@1(init=v))\nh: step[4] = tanh(r)\ny: step[4] = identity(h)",
        "r: step[4] = mul(p, h@2(init=history))\nh: step[4] = tanh(r)\n"
        "y: batch[8] = final(h@2(init=history))",
        "a: step[3] = matmul(w, h@1(init=b)) reverse\nc: step[4] = matmul_transposed(w, a) "
        "reverse\n"
        "e: step[4] = add(c, x, h@3) reverse\nh: step[4] = tanh(e) reverse\n"
        "y: step[4] = mul(h, h@1) reverse",
        // A reverse cycle that feeds a forward one, delayed.
        "e: step[4] = add(x, h@1(init=b)) reverse\nh: step[4] = tanh(e) reverse\n"
        "f: step[4] = add(h@1(init=v), g@1)\ng: step[4] = tanh(f)\ny: step[4] = identity(g)",
        // An initial value that is computed from another walk's end.
        "e: step[4] = add(x, h@1)\nh: step[4] = tanh(e)\nl: batch[4] = final(h@1)\n"
        "f: step[4] = mul(z, g@1(init=l)) reverse\ng: step[4] = sin(f) reverse\n"
        "y: batch[4] = final(g@1(init=l)) reverse"));

// What one random graph of this seed gets wrong.
std::string CheckRandomGraph(uint64_t seed, int order) {
  try {
    RandomGraphOptions options;
    if (order > 1) options.operators = 12;
    const Graph graph = RandomGraph(seed, options);
    const Bindings bindings = RandomBindings(graph, seed, RandomBindingsOptionsFor(seed));
    return CheckGradients(graph, bindings, seed, order);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(GradientsOfRandomGraphs, EqualCentralDifferences) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    EXPECT_EQ(CheckRandomGraph(seed, 1), "") << "seed " << seed;
  }
}

TEST(GradientsOfRandomGraphs, HaveGradientsThemselves) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    EXPECT_EQ(CheckRandomGraph(seed, 2), "") << "seed " << seed;
  }
}

TEST(Gradients, AreNoNodeWhereNothingDepends) {
  Graph graph = ParseGraph("input x: step[2]\ninput z: step[2]\ny: step[2] = neg(x)\n");
  const NodeId ones = Ones(&graph);
  EXPECT_EQ(Gradients(&graph, {{2, ones}}, {1}), std::vector<NodeId>{kNoNode});
  EXPECT_NE(Gradients(&graph, {{2, ones}}, {0}).front(), kNoNode);
}

TEST(Gradients, WantTransformsLowered) {
  Graph graph = ParseGraph("input x: step[2]\ny: step[2] = neg(x@1(zoneout=0.5))\n");
  const NodeId ones = Ones(&graph);
  try {
    Gradients(&graph, {{1, ones}}, {0});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[autodiff] y reads x through a transform that is not lowered");
  }
}

}  // namespace
}  // namespace turbolstm
