#include "plan/uses.h"

#include <gtest/gtest.h>

#include "graph/text.h"

namespace turbolstm {
namespace {

ResolvedEdge OperandOf(const Graph& graph, std::string_view reader) {
  const Node& node = graph.node(graph.Find(reader));
  return Uses(graph).Resolve(node, node.inputs[0]);
}

TEST(Uses, SlicesOfSlicesAreColumnsOfTheValue) {
  const Graph graph = ParseGraph(R"(
input x: step[8]
a: step[5] = slice(x) begin=2 size=5
b: step[2] = slice(a) begin=1 size=2
y: step[2] = tanh(b)
output y = y
)");
  const ResolvedEdge read = OperandOf(graph, "y");
  EXPECT_EQ(read.value, graph.Find("x"));
  EXPECT_EQ(read.column, 3);
  EXPECT_EQ(read.width, 2);
  EXPECT_EQ(read.delay, 0);
}

// What is cut out of a delayed value is cut out of each row of its history too.
TEST(Uses, ASliceOfADelayedValueIsAlsoOneOfItsInitialValue) {
  const Graph graph = ParseGraph(R"(
input x: step[4]
input h: batch[8]
late: step[4] = identity(x@2(init=h)) reverse
part: step[2] = slice(late) begin=1 size=2
y: step[2] = tanh(part)
output y = y
)");
  const ResolvedEdge read = OperandOf(graph, "y");
  EXPECT_EQ(read.value, graph.Find("x"));
  EXPECT_EQ(read.column, 1);
  EXPECT_EQ(read.delay, 2);
  EXPECT_EQ(read.direction, Direction::kReverse);
  EXPECT_EQ(read.init, graph.Find("h"));
  EXPECT_EQ(read.init_column, 1);
  EXPECT_EQ(read.init_stride, 4);
}

TEST(Uses, ADelayedSliceHasAHistoryOfItsOwnWidth) {
  const Graph graph = ParseGraph(R"(
input x: step[4]
input h: batch[4]
part: step[2] = slice(x) begin=1 size=2
y: step[2] = tanh(part@2(init=h))
output y = y
)");
  const ResolvedEdge read = OperandOf(graph, "y");
  EXPECT_EQ(read.column, 1);
  EXPECT_EQ(read.init_column, 0);
  EXPECT_EQ(read.init_stride, 2);
}

// Two delays in a row have two initial values: what lies between them is stored.
TEST(Uses, ADelayedReadOfADelayedValueStopsThere) {
  const Graph graph = ParseGraph(R"(
input x: step[2]
late: step[2] = identity(x@1)
y: step[2] = tanh(late@1)
output y = y
)");
  const Uses uses(graph);
  EXPECT_FALSE(uses.IsView(graph.Find("late")));
  EXPECT_EQ(OperandOf(graph, "y").value, graph.Find("late"));
}

TEST(Uses, OutputsAndParametersAreNoViews) {
  const Graph graph = ParseGraph(R"(
input x: step[4]
parameter p: static[4]
a: step[2] = slice(x) size=2
b: static[2] = slice(p) size=2
y: step[2] = add(a, b)
output a = a
output y = y
)");
  const Uses uses(graph);
  EXPECT_FALSE(uses.IsView(graph.Find("a")));
  EXPECT_FALSE(uses.IsView(graph.Find("b")));
  EXPECT_TRUE(uses.IsOutput(graph.Find("a")));
}

TEST(Uses, AreCountedThroughViewsAndOfInitialValues) {
  const Graph graph = ParseGraph(R"(
input x: step[2]
input h: batch[4]
first: batch[2] = slice(h) size=2
late: step[2] = identity(x@1(init=first))
y: step[2] = mul(late, x)
output y = y
)");
  const Uses uses(graph);
  ASSERT_EQ(uses.of(graph.Find("x")).size(), 2u);
  EXPECT_TRUE(uses.of(graph.Find("x"))[0].delayed);
  EXPECT_TRUE(uses.of(graph.Find("x"))[0].has_init);
  EXPECT_FALSE(uses.of(graph.Find("x"))[1].delayed);
  ASSERT_EQ(uses.of(graph.Find("h")).size(), 1u);
  EXPECT_TRUE(uses.of(graph.Find("h"))[0].as_init);
}

// A part of a value, even one that is stretched to the value's width, is not the value.
TEST(Uses, ReadsPartSaysWhoLooksAtSomeColumnsOnly) {
  const Graph graph = ParseGraph(R"(
input x: step[2]
a: step[1] = slice(x) size=1
y: step[2] = tanh(x)
z: step[2] = mul(y, a)
output z = z
)");
  const Uses uses(graph);
  EXPECT_FALSE(uses.ReadsPart(graph.Find("y"), graph.Find("x")));
  EXPECT_TRUE(uses.ReadsPart(graph.Find("z"), graph.Find("x")));
}

}  // namespace
}  // namespace turbolstm
