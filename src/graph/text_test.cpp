#include "graph/text.h"

#include <gtest/gtest.h>

#include "base/error_test.h"
#include "graph/autodiff.h"
#include "graph/builder.h"
#include "testing/random_graph.h"

namespace turbolstm {
namespace {

void ExpectSameEdge(const Edge& a, const Edge& b) {
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.delay, b.delay);
  EXPECT_EQ(a.init, b.init);
  EXPECT_EQ(a.adjoint, b.adjoint);
  EXPECT_EQ(a.zoneout, b.zoneout);
  EXPECT_EQ(a.dropout, b.dropout);
}

void ExpectSameGraph(const Graph& a, const Graph& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(a.outputs(), b.outputs());
  for (NodeId id = 0; id < a.size(); ++id) {
    SCOPED_TRACE(a.Label(id));
    const Node& x = a.node(id);
    const Node& y = b.node(id);
    EXPECT_EQ(x.op, y.op);
    EXPECT_EQ(x.domain, y.domain);
    EXPECT_EQ(x.direction, y.direction);
    EXPECT_EQ(x.type, y.type);
    EXPECT_EQ(x.features, y.features);
    EXPECT_EQ(x.attributes, y.attributes);
    EXPECT_EQ(x.name, y.name);
    ASSERT_EQ(x.inputs.size(), y.inputs.size());
    for (size_t i = 0; i < x.inputs.size(); ++i) ExpectSameEdge(x.inputs[i], y.inputs[i]);
  }
}

std::string ErrorOf(std::string_view text) {
  return turbolstm::ErrorOf([&] { ParseGraph(text); });
}

TEST(GraphText, PrintsOneStatementANode) {
  Graph graph;
  Builder builder(&graph, Direction::kReverse);
  const Value x = builder.Input("x", Domain::kStep, {6});
  builder.IndexInput("ids", Domain::kBatch);
  const Value w = builder.Parameter("layer.w", {6, 6});
  const Value h0 = builder.Input("h0", Domain::kBatch, {6});
  const Value h = builder.State("h", 6);
  builder.Define(h, x + h.Previous(h0).WithZoneout(0.1F).WithVariationalDropout(0.25F));
  Slice(MatMul(w, h), 1, 2).Named("a slice");
  builder.RandomMask(Domain::kStep, 3, 0.5, 2, 0.25);
  graph.AddOutput("output", h.id());
  EXPECT_EQ(PrintGraph(graph),
            "input x: step[6] reverse\n"
            "index ids: batch reverse\n"
            "parameter layer.w: static[6, 6] reverse\n"
            "input h0: batch[6] reverse\n"
            "h: step[6] = identity(%5) reverse\n"
            "%5: step[6] = add(x, h@1(init=h0, zoneout=0.1, dropout=0.25)) reverse\n"
            "%6: step[6] = matmul(layer.w, h) reverse\n"
            "\"a slice\": step[2] = slice(%6) begin=1 size=2 reverse\n"
            "%8: step[3] = random_mask() number=0.5 scale=2 mean=0.25 reverse\n"
            "output \"output\" = h\n");
  ExpectSameGraph(ParseGraph(PrintGraph(graph)), graph);
}

TEST(GraphText, RoundTripsRandomGraphsAndTheirGradients) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph = RandomGraph(seed, {.transforms = seed % 2 == 0});
    if (seed % 2 == 1) {
      std::vector<Cotangent> outputs;
      for (const auto& [name, id] : graph.outputs()) outputs.push_back({id, Ones(&graph)});
      Gradients(&graph, outputs, {0});
    }
    ExpectSameGraph(ParseGraph(PrintGraph(graph)), graph);
  }
}

TEST(GraphText, RoundTripsNumbersAndNames) {
  Graph graph;
  Builder builder(&graph);
  for (const double number : {0.1, -0.0, 1e300, 5e-324, -1.0 / 3, HUGE_VAL, -HUGE_VAL}) {
    builder.Constant(number);
  }
  for (const char* name : {"input", "a b", "\"", "\\", "a\nb", "%3", "é", "3", "step", "\x7f"}) {
    builder.Parameter(name, {});
  }
  const Graph parsed = ParseGraph(PrintGraph(graph));
  ExpectSameGraph(parsed, graph);
  EXPECT_TRUE(std::signbit(parsed.node(1).attributes.number));
}

TEST(GraphText, ReadsCommentsBlankLinesAndForwardCalls) {
  const Graph graph = ParseGraph(
      "# A sum over time.\r\n"
      "\n"
      "  output y = sum   # the last line defines it\n"
      "input x: step[2]\n"
      "sum: step[2] = add(x, sum@1)");
  EXPECT_EQ(graph.size(), 2);
  EXPECT_EQ(graph.node(1).inputs[1].source, 1);
  EXPECT_EQ(graph.FindOutput("y"), 1);
  EXPECT_EQ(ParseGraph("").size(), 0);
}

TEST(GraphText, ErrorsSayWhereWhatCameAndWhatWasWanted) {
  const std::pair<const char*, const char*> cases[] = {
      {"input x step[2]", "[graph] line 1, column 9: got 'step', wants ':'"},
      {"\n input x: steps[2]",
       "[graph] line 2, column 11: got 'steps', wants static, batch or step"},
      {"input x: step[2", "[graph] line 1, column 16: got the end of the text, wants ']'"},
      {"input x: step[-2]",
       "[graph] line 1, column 15: got '-2', wants an integer from 0 to 2147483648"},
      {"input x: step[2147483649]",
       "[graph] line 1, column 15: got '2147483649', wants an integer from 0 to 2147483648"},
      {"input x: step[0, 2147483648, 2147483648]",
       "[graph] line 1, column 15: a value has more than 1099511627776 elements"},
      {"input x: step[1,1,1,1,1,1,1,1,1]",
       "[graph] line 1, column 31: got '1', wants at most 8 axes"},
      {"parameter w: step[2]", "[graph] line 1, column 14: got 'step', wants static"},
      {"input x: step[2] y", "[graph] line 1, column 19: got the end of the text, wants '='"},
      {"input x: step[2] y=1",
       "[graph] line 1, column 18: got 'y', wants number, scale, mean, begin, size, site, domain "
       "or "
       "reverse"},
      {"input x: step[2] size=1 size=1",
       "[graph] line 1, column 25: got 'size', wants each attribute once"},
      {"input x: step[2] input", "[graph] line 1, column 23: got the end of the text, wants '='"},
      {"input x: step[2] )", "[graph] line 1, column 18: got ')', wants the end of the line"},
      {"input x: step[2]\ninput x: step[2]", "[graph] line 2, column 7: two nodes are named 'x'"},
      {"%1: static[1] = constant()\n%01: static[1] = constant()",
       "[graph] line 2, column 1: two nodes are numbered %1"},
      {"y: step[2] = neg(x)", "[graph] line 1, column 18: got 'x', wants a node of this graph"},
      {"y: step[2] = foo(x)", "[graph] line 1, column 14: got 'foo', wants an operator"},
      {"y: step[2] = input()", "[graph] line 1, column 14: got 'input', wants an operator"},
      {"input x: step[2]\ny: step[3] = neg(x)",
       "[graph] line 2, column 1: got step [3] for y, its operands make it step [2]"},
      {"input x: step[2]\ny: step[2] = neg(x, x)",
       "[graph] line 2, column 1: [neg 'y'] got 2 operands, wants 1"},
      {"input x: step[2]\ny: step[2] = neg(x@1048577)",
       "[graph] line 2, column 20: got '1048577', wants an integer from 0 to 1048576"},
      {"input x: step[2]\ny: step[2] = neg(x@1(zoneout=2))",
       "[graph] line 2, column 30: got '2', wants a probability from 0 to 1"},
      {"input x: step[2]\ny: step[2] = neg(x@1(speed=2))",
       "[graph] line 2, column 22: got 'speed', wants init, zoneout, dropout or adjoint"},
      {"output y = x", "[graph] line 1, column 12: got 'x', wants a node of this graph"},
      {"input x: step[2]\noutput y = x\noutput y = x",
       "[graph] line 3, column 8: two outputs are named 'y'"},
      {"output %1 = x", "[graph] line 1, column 8: got '%1', wants a name"},
      {"input \"x: step[2]", "[graph] line 1, column 7: a name has no closing '\"' on its line"},
      {"input \"\\q\": step[2]",
       "[graph] line 1, column 9: got an unknown escape, wants '\"', '\\' or x and two hexadecimal "
       "digits after '\\'"},
      {"input \"\": step[2]", "[graph] line 1, column 7: got '', wants a name"},
      {"\x01",
       "[graph] line 1, column 1: got '\\x01', wants input, index, parameter, output or a node"},
      {"y: static[1] = constant() number=nan",
       "[graph] line 1, column 34: got 'nan', wants a number"},
      {"%: static[1] = constant()",
       "[graph] line 1, column 1: got '%', wants input, index, parameter, output or a node"},
  };
  for (const auto& [text, error] : cases) EXPECT_EQ(ErrorOf(text), error) << text;
}

TEST(GraphText, LongTextsTakeLinearTime) {
  std::string text = "x0: static[1] = constant()\n";
  for (int i = 1; i < 20000; ++i) {
    text += fmt::format("x{}: static[1] = neg(x{})\noutput y{} = x{}\n", i, i - 1, i, i);
  }
  EXPECT_EQ(ParseGraph(text).size(), 20000);
}

}  // namespace
}  // namespace turbolstm
