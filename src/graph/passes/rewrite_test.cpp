#include "graph/passes/rewrite.h"

#include "graph/passes/pass_test.h"

namespace turbolstm {
namespace {

const std::string_view kGraph = R"(
input x: step[2]
input i: batch[2]
%2: step[2] = tanh(x)
%3: step[2] = neg(%2@1(init=i))
y: step[2] = mul(%3, %3)
output y = y
output z = %2
)";

TEST(Rewrite, CountsOperandsInitialValuesAndOutputs) {
  EXPECT_EQ(UseCounts(ParseGraph(kGraph)), (std::vector<int32_t>{1, 1, 2, 2, 1}));
}

TEST(Rewrite, ReplacesEveryUse) {
  Graph graph = ParseGraph(kGraph);
  ReplaceUses(&graph, 2, 0);
  EXPECT_EQ(graph.node(3).inputs[0].source, 0);
  EXPECT_EQ(graph.node(3).inputs[0].init, 1);
  EXPECT_EQ(graph.FindOutput("z"), 0);
}

TEST(Rewrite, MovesANameToANodeWithoutOne) {
  Graph graph = ParseGraph(kGraph);
  ReplaceUses(&graph, graph.Find("y"), 3);
  EXPECT_EQ(graph.node(3).name, "y");
  EXPECT_EQ(graph.node(4).name, "");
  ReplaceUses(&graph, 3, 0);
  EXPECT_EQ(graph.node(0).name, "x");
}

TEST(Rewrite, SortsNodesBehindWhatTheyReadWithoutDelay) {
  ExpectRewritten(RemoveDeadNodes, R"(
y: step[1] = neg(%1)
%1: step[1] = tanh(x)
input x: step[1]
output y = y
)",
                  R"(
input x: step[1]
%1: step[1] = tanh(x)
y: step[1] = neg(%1)
output y = y
)");
}

}  // namespace
}  // namespace turbolstm
