#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "graph/analysis.h"
#include "graph/text.h"

namespace turbolstm {

// Expects that the pass makes of one graph the other, both in the text form, node for node, and
// leaves the result alone.
inline void ExpectRewritten(void (*pass)(Graph*), std::string_view before, std::string_view after) {
  Graph graph = ParseGraph(before, "before");
  const std::string wanted = PrintGraph(ParseGraph(after, "after"));
  pass(&graph);
  EXPECT_EQ(PrintGraph(graph), wanted);
  EXPECT_NO_THROW(Analyse(graph));
  pass(&graph);
  EXPECT_EQ(PrintGraph(graph), wanted) << "a second time";
}

}  // namespace turbolstm
