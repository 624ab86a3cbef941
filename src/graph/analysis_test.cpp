#include "graph/analysis.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error_test.h"
#include "graph/autodiff.h"
#include "graph/builder.h"
#include "graph/text.h"
#include "testing/random_graph.h"

namespace turbolstm {
namespace {

std::string ErrorOf(std::string_view text) {
  const Graph graph = ParseGraph(text);
  return turbolstm::ErrorOf([&] { Analyse(graph); });
}

// The region of the node of this name.
struct Found {
  Graph graph;
  Region region;
};
Found RegionOf(std::string_view text, std::string_view name) {
  Graph graph = ParseGraph(text);
  const Analysis analysis = Analyse(graph);
  const auto id = static_cast<size_t>(graph.Find(name));
  return {std::move(graph), analysis.regions[static_cast<size_t>(analysis.region_of[id])]};
}

TEST(AnalysisErrors, ACycleWithoutDelayIsNamed) {
  EXPECT_EQ(ErrorOf("a: step[1] = neg(c)\nb: step[1] = neg(a)\nc: step[1] = neg(b)\n"),
            "[graph] cycle without delay: a -> b -> c -> a");
  EXPECT_EQ(ErrorOf("a: step[1] = neg(a)\n"), "[graph] cycle without delay: a -> a");
  // Only a part of the component is the cycle.
  EXPECT_EQ(ErrorOf("a: step[1] = add(b, c@1)\nb: step[1] = neg(a)\nc: step[1] = neg(b)\n"),
            "[graph] cycle without delay: a -> b -> a");
}

TEST(AnalysisErrors, AnInitialValueIsReadWithoutDelay) {
  EXPECT_EQ(ErrorOf("a: step[1] = neg(a@1(init=s))\ns: batch[1] = sum_time(a)\n"),
            "[graph] cycle without delay: a -> s -> a");
}

TEST(AnalysisErrors, TwoDirectionsInACycle) {
  EXPECT_EQ(ErrorOf("a: step[1] = neg(b@1)\nb: step[1] = neg(a) reverse\n"),
            "[graph] a and b walk in opposite directions in the cycle of a, b");
}

TEST(AnalysisErrors, OperatorsOverAllStepsInACycle) {
  EXPECT_EQ(ErrorOf("a: step[1] = first_max_mask(a@1)\n"),
            "[graph] a needs all steps at once and cannot be in the cycle of a");
}

TEST(AnalysisErrors, UndefinedStates) {
  Graph graph;
  Builder(&graph).State("h", 2);
  try {
    Analyse(graph);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[graph] state 'h' is read but never defined");
  }
}

TEST(AnalysisKinds, WithoutACycle) {
  constexpr std::string_view text =
      "input x: step[2]\nparameter w: static[3, 2]\nt: static[2, 3] = transpose(w)\n"
      "n: static[1] = row_count()\nmean: static[2] = div(sum, n)\nsum: static[2] = sum_rows(x)\n"
      "y: step[3] = matmul(w, x@2) reverse\n";
  EXPECT_EQ(RegionOf(text, "y").region.kind, RegionKind::kTimeParallel);
  EXPECT_EQ(RegionOf(text, "y").region.direction, Direction::kReverse);
  EXPECT_EQ(RegionOf(text, "t").region.kind, RegionKind::kHoisted);
  EXPECT_EQ(RegionOf(text, "mean").region.kind, RegionKind::kTimeParallel);
}

TEST(AnalysisKinds, MatrixProductsCountAsLevels) {
  // MGU: h = (1 - f) h + f tanh(x + U (f h)), f = sigmoid(V h); its second product needs its first.
  constexpr std::string_view text =
      "input x: step[2]\nparameter u: static[2, 2]\nparameter v: static[2, 2]\n"
      "wx: step[2] = matmul(u, x)\n"
      "a: step[2] = matmul(v, h@1)\nf: step[2] = sigmoid(a)\nfh: step[2] = mul(f, h@1)\n"
      "b: step[2] = matmul(u, fh)\nc: step[2] = add(wx, b)\nn: step[2] = tanh(c)\n"
      "d: step[2] = sub(n, h@1)\ne: step[2] = mul(f, d)\nh: step[2] = add(e, h@1)\n";
  const Region loop = RegionOf(text, "h").region;
  EXPECT_EQ(loop.kind, RegionKind::kGemmLoop);
  EXPECT_EQ(loop.levels, 2);
  EXPECT_EQ(loop.nodes.size(), 9U);
  EXPECT_EQ(RegionOf(text, "wx").region.kind, RegionKind::kTimeParallel);
}

TEST(AnalysisKinds, LoopsWithoutAMatrixProduct) {
  constexpr std::string_view text =
      "input x: step[2]\nparameter u: static[2]\n"
      "a: step[2] = mul(u, h@1)\nb: step[2] = add(a, x)\nh: step[2] = tanh(b)\n"
      "p: step[2] = mul(x, s@2)\ns: step[2] = add(p, h)\n"
      "q: step[2] = mul(z, z@1)\nz: step[2] = add(q@1, x)\n";
  EXPECT_EQ(RegionOf(text, "h").region.kind, RegionKind::kPointwiseLoop);
  // Linear in the state, with a coefficient from outside.
  EXPECT_EQ(RegionOf(text, "s").region.kind, RegionKind::kScan);
  // A product of the state with itself is not.
  EXPECT_EQ(RegionOf(text, "z").region.kind, RegionKind::kPointwiseLoop);
}

// Which nodes each node reads from, over any number of edges.
std::vector<std::vector<bool>> Reachable(const Graph& graph) {
  const auto n = static_cast<size_t>(graph.size());
  std::vector<std::vector<bool>> reads(n, std::vector<bool>(n, false));
  for (size_t i = 0; i < n; ++i) {
    std::vector<size_t> stack = {i};
    while (!stack.empty()) {
      const Node& node = graph.node(static_cast<NodeId>(stack.back()));
      stack.pop_back();
      for (const Edge& edge : node.inputs) {
        for (const NodeId id : {edge.source, edge.init}) {
          if (id == kNoNode || reads[i][static_cast<size_t>(id)]) continue;
          reads[i][static_cast<size_t>(id)] = true;
          stack.push_back(static_cast<size_t>(id));
        }
      }
    }
  }
  return reads;
}

// Components by their definition: nodes that read each other.
void ExpectComponents(const Graph& graph, const Analysis& analysis) {
  const auto reads = Reachable(graph);
  for (size_t i = 0; i < reads.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      EXPECT_EQ(analysis.region_of[i] == analysis.region_of[j], reads[i][j] && reads[j][i])
          << graph.Label(static_cast<NodeId>(i)) << ", " << graph.Label(static_cast<NodeId>(j));
    }
    const Region& region = analysis.regions[static_cast<size_t>(analysis.region_of[i])];
    EXPECT_EQ(region.is_loop(), reads[i][i]) << graph.Label(static_cast<NodeId>(i));
  }
}

// Whatever is read stands before: in an earlier region, or earlier in the same one if without
// delay.
void ExpectOrder(const Graph& graph, const Analysis& analysis) {
  std::vector<int> place(static_cast<size_t>(graph.size()), -1);
  int next = 0;
  for (const Region& region : analysis.regions) {
    for (const NodeId id : region.nodes) place[static_cast<size_t>(id)] = next++;
  }
  EXPECT_EQ(std::count(place.begin(), place.end(), -1), 0);
  EXPECT_EQ(next, graph.size());
  for (NodeId id = 0; id < graph.size(); ++id) {
    const auto reader = static_cast<size_t>(id);
    for (const Edge& edge : graph.node(id).inputs) {
      const auto source = static_cast<size_t>(edge.source);
      EXPECT_LE(analysis.region_of[source], analysis.region_of[reader]);
      if (edge.delay == 0) {
        EXPECT_LT(place[source], place[reader]) << graph.Label(id);
      }
      if (edge.init != kNoNode) {
        EXPECT_LT(place[static_cast<size_t>(edge.init)], place[reader]);
      }
    }
  }
}

TEST(Analysis, RegionsOfRandomGraphsAreComponentsInOrder) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph = RandomGraph(seed);
    std::vector<Cotangent> outputs;
    for (const auto& [name, id] : graph.outputs()) outputs.push_back({id, Ones(&graph)});
    Gradients(&graph, outputs, {0});
    const Analysis analysis = Analyse(graph);
    ExpectComponents(graph, analysis);
    ExpectOrder(graph, analysis);
  }
}

}  // namespace
}  // namespace turbolstm
