#include "graph/autodiff.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "graph/analysis.h"
#include "graph/builder.h"
#include "testing/gradient_check.h"
#include "testing/random_bindings.h"
#include "testing/random_graph.h"

namespace turbolstm {
namespace {

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
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    EXPECT_EQ(CheckRandomGraph(seed, 1), "") << "seed " << seed;
  }
}

TEST(GradientsOfRandomGraphs, SecondDerivativesEqualCentralDifferences) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    EXPECT_EQ(CheckRandomGraph(seed, 2), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace turbolstm
