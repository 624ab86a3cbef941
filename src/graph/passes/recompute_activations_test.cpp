#include "graph/autodiff.h"
#include "graph/passes/pass_test.h"
#include "graph/passes/passes.h"

namespace turbolstm {
namespace {

constexpr std::string_view kForward = R"(
input x: step[2]
parameter w: static[3, 2]
parameter u: static[3, 3]
%3: step[3] = matmul(w, x)
%4: step[3] = matmul(u, h@1)
%5: step[3] = add(%3, %4)
z: step[3] = sigmoid(%5)
h: step[3] = tanh(z)
output y = h
)";

Graph Recomputed(std::string_view text) {
  Graph graph = ParseGraph(text);
  const NodeId w = graph.Find("w");
  const std::vector<NodeId> gradients =
      Gradients(&graph, {{graph.FindOutput("y"), Ones(&graph)}}, {w});
  graph.AddOutput("dw", gradients[0]);
  RunPasses(&graph, StandardPasses());
  RecomputeActivations(&graph);
  return graph;
}

int64_t CountRecomputed(const Graph& graph, Op op) {
  int64_t count = 0;
  for (const Node& node : graph.nodes()) count += node.recomputed && node.op == op;
  return count;
}

// z once more, from x and the states h that the loop left: both products, their sum, the sigmoid.
// Of h itself the state is read.
TEST(RecomputeActivations, ComputesFromStates) {
  const Graph graph = Recomputed(kForward);
  EXPECT_EQ(CountRecomputed(graph, Op::kMatMul), 2);
  EXPECT_EQ(CountRecomputed(graph, Op::kSigmoid), 1);
  EXPECT_EQ(CountRecomputed(graph, Op::kTanh), 0);
  for (const Region& region : Analyse(graph).regions) {
    for (const NodeId id : region.nodes) {
      EXPECT_FALSE(graph.node(id).recomputed && region.is_loop()) << graph.Label(id);
    }
  }
}

TEST(RecomputeActivations, ReadsOutputsInstead) {
  const Graph graph = Recomputed(std::string(kForward) + "output gate = z\n");
  EXPECT_EQ(CountRecomputed(graph, Op::kMatMul), 0);
}

TEST(RecomputeActivations, HasNothingToDoTheSecondTime) {
  Graph graph = Recomputed(kForward);
  const std::string once = PrintGraph(graph);
  RecomputeActivations(&graph);
  EXPECT_EQ(PrintGraph(graph), once);
}

TEST(RecomputeActivations, LeavesAForwardPassAlone) {
  ExpectRewritten(RecomputeActivations, kForward, kForward);
}

// Equal nodes are merged by later passes, copies with what they copy are not.
TEST(RecomputeActivations, IsNotUndone) {
  Graph graph = Recomputed(kForward);
  Simplify(&graph);
  EXPECT_EQ(CountRecomputed(graph, Op::kSigmoid), 1);
}

}  // namespace
}  // namespace turbolstm
