#include "graph/dot.h"

#include <gtest/gtest.h>

#include "graph/text.h"

namespace turbolstm {
namespace {

constexpr std::string_view kLoop =
    "input x: step[2]\n"
    "input \"h\\\"0\": batch[2]\n"
    "sum: step[2] = add(x, h@1(init=\"h\\\"0\", zoneout=0.5)) reverse\n"
    "h: step[2] = tanh(sum) reverse\n"
    "output y = h\n";

TEST(Dot, ShowsNodesDelaysInitialValuesAndOutputs) {
  EXPECT_EQ(PrintDot(ParseGraph(kLoop)),
            "digraph {\n"
            "  n0 [shape=ellipse, label=\"x = input\nstep[2]\"];\n"
            "  n1 [shape=ellipse, label=\"h\\\"0 = input\nbatch[2]\"];\n"
            "  n2 [shape=box, label=\"sum = add\nstep[2] reverse\"];\n"
            "  n3 [shape=box, label=\"h = tanh\nstep[2] reverse\"];\n"
            "  n0 -> n2;\n"
            "  n3 -> n2 [style=dashed, constraint=false, label=\"@1 zoneout=0.5\"];\n"
            "  n1 -> n2 [style=dotted, label=\"init\"];\n"
            "  n2 -> n3;\n"
            "  o0 [shape=plaintext, label=\"y\"];\n"
            "  n3 -> o0;\n"
            "}\n");
}

TEST(Dot, BoxesLoopsWithTheirKind) {
  const Graph graph = ParseGraph(kLoop);
  const Analysis analysis = Analyse(graph);
  EXPECT_NE(PrintDot(graph, &analysis).find("{\n    label=\"PointwiseLoop, reverse\";\n    n2 ["),
            std::string::npos);
}

}  // namespace
}  // namespace turbolstm
