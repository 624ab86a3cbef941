#include "graph/passes/lower_transforms.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/philox.h"
#include "graph/analysis.h"
#include "graph/builder.h"
#include "graph/interpreter.h"
#include "testing/gradient_check.h"
#include "testing/random_bindings.h"
#include "testing/random_graph.h"

namespace turbolstm {
namespace {

constexpr double kTolerance = 1e-12;

// h(t) = x(t) + h(t-1) with a transform on the edge back, and its final state.
struct Sum {
  Graph graph;
  Bindings bindings;

  template <typename Transform>
  Sum(int32_t delay, Transform transform) {
    Builder builder(&graph);
    const Value x = builder.Input("x", Domain::kStep, {1});
    const Value init = builder.Input("init", Domain::kBatch, {delay});
    const Value h = builder.State("h", 1);
    const Value past = transform(h.Delayed(delay, init));
    builder.Define(h, x + past);
    graph.AddOutput("h", h.id());
    graph.AddOutput("final", Final(past).id());
    LowerTransforms(&graph);
    Analyse(graph);
    bindings.steps = 5;
    bindings.batch = 1;
    bindings.values["x"] = {{5, 1, 1}, {1, 2, 3, 4, 5}};
    bindings.values["init"] = {{1, delay}, std::vector<double>(static_cast<size_t>(delay), 10)};
    for (int i = 1; i < delay; ++i) bindings.values["init"].data[static_cast<size_t>(i)] = 10 + i;
  }

  std::vector<double> Run(const std::string& output) const {
    return Interpret(graph, bindings).at(output).data;
  }
};

void ExpectNear(const std::vector<double>& got, const std::vector<double>& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], kTolerance) << "at " << i;
}

TEST(LowerZoneout, KeepsThePreviousValueWhereTheMaskSaysSo) {
  Sum sum(1, [](const Value& past) { return past.WithZoneout(0.5F); });
  sum.bindings.training = true;
  sum.bindings.seed = 3;
  double z = 10;
  std::vector<double> wanted;
  for (uint64_t t = 0; t < 5; ++t) {
    wanted.push_back(static_cast<double>(t + 1) + z);
    if (RandomSite{3, 0, 0}.Uniform(t) >= 0.5F) z = wanted.back();
  }
  ExpectNear(sum.Run("h"), wanted);
  ExpectNear(sum.Run("final"), {z});
}

TEST(LowerZoneout, TakesTheMeanOutsideTraining) {
  const Sum sum(1, [](const Value& past) { return past.WithZoneout(0.25F); });
  double z = 10;
  std::vector<double> wanted;
  for (int t = 0; t < 5; ++t) {
    wanted.push_back(t + 1 + z);
    z = 0.25 * z + 0.75 * wanted.back();
  }
  ExpectNear(sum.Run("h"), wanted);
  ExpectNear(sum.Run("final"), {z});
}

TEST(LowerZoneout, OfProbabilityOneNeverLeavesTheLastInitialRow) {
  Sum sum(2, [](const Value& past) { return past.WithZoneout(1); });
  for (const bool training : {false, true}) {
    sum.bindings.training = training;
    ExpectNear(sum.Run("h"), {1 + 10, 2 + 11, 3 + 11, 4 + 11, 5 + 11});
    ExpectNear(sum.Run("final"), {11, 11});
  }
}

TEST(LowerZoneout, SharesOneCarriedValueAmongItsReaders) {
  Graph graph;
  Builder builder(&graph);
  const Value x = builder.Input("x", Domain::kStep, {2});
  const Value past = x.Previous().WithZoneout(0.5F);
  const Value sum = Tanh(past) + Sigmoid(past);
  graph.AddOutput("y", sum.id());
  LowerTransforms(&graph);
  int masks = 0;
  for (const Node& node : graph.nodes()) masks += node.op == Op::kRandomMask;
  EXPECT_EQ(masks, 1);
}

TEST(LowerDropout, MultipliesByOneMaskASequence) {
  Sum sum(2, [](const Value& past) { return past.WithVariationalDropout(0.5F); });
  ExpectNear(sum.Run("h"), {11, 13, 14, 17, 19});
  ExpectNear(sum.Run("final"), {17, 19});
  sum.bindings.training = true;
  bool seen[2] = {};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    sum.bindings.seed = seed;
    const bool kept = RandomSite{seed, 0, 0}.Uniform(0) < 0.5F;
    seen[kept] = true;
    ExpectNear(sum.Run("h"),
               kept ? std::vector<double>{21, 24, 45, 52, 95} : std::vector<double>{1, 2, 3, 4, 5});
    ExpectNear(sum.Run("final"), kept ? std::vector<double>{104, 190} : std::vector<double>{0, 0});
  }
  EXPECT_TRUE(seen[0] && seen[1]);
}

TEST(LowerDropout, OfProbabilityOneReadsZerosInTrainingOnly) {
  Sum sum(1, [](const Value& past) { return past.WithVariationalDropout(1); });
  const Sum plain(1, [](const Value& past) { return past; });
  ExpectNear(sum.Run("h"), plain.Run("h"));
  ExpectNear(sum.Run("final"), plain.Run("final"));
  sum.bindings.training = true;
  ExpectNear(sum.Run("h"), {1, 2, 3, 4, 5});
  ExpectNear(sum.Run("final"), {0});
}

TEST(LowerTransforms, DrawsFromSitesOfItsOwn) {
  Graph graph;
  Builder builder(&graph);
  const Value x = builder.Input("x", Domain::kStep, {1});
  const Value drawn = builder.RandomMask(Domain::kStep, 1, 0.5, 1, 0.5);
  graph.node(drawn.id()).attributes.site = 7;
  graph.AddOutput("y", (drawn + x.Previous().WithVariationalDropout(0.5F)).id());
  LowerTransforms(&graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (node.op != Op::kRandomMask || id == drawn.id()) continue;
    EXPECT_EQ(node.attributes.site, 8);
  }
}

TEST(LowerTransforms, LeavesLegalDifferentiableGraphs) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph = RandomGraph(seed, {.operators = 16, .transforms = true});
    LowerTransforms(&graph);
    ASSERT_NO_THROW(Analyse(graph));
    const Bindings bindings = RandomBindings(graph, seed, RandomBindingsOptionsFor(seed));
    EXPECT_EQ(CheckGradients(graph, bindings, seed), "");
  }
}

}  // namespace
}  // namespace turbolstm
