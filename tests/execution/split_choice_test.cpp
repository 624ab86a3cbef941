// Which products of a network are made of products of pieces in bf16x6.

#include "execution/split_choice.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "execution/device_lowering.h"
#include "plan/recurrent_graphs.h"

namespace turbolstm {
namespace {

LoweredGraph Trained(const std::string& cell, int64_t size, Precision precision) {
  RecurrentOptions options = SmallOptions(cell);
  options.size.input = size;
  options.size.hidden = size;
  return LowerForDevice(WithGradients(RecurrentGraph(options)), precision);
}

struct Counted {
  int split = 0;
  int products = 0;
};

// Of a loop over time or of what runs over all steps at once; Static products are in neither.
Counted Count(const LoweredGraph& graph, bool loops, int64_t steps, int64_t batch, SplitRule rule) {
  Counted counted;
  for (const Group& group : graph.groups) {
    if (group.is_loop() != loops) continue;
    for (const Stage& stage : group.stages) {
      if (!IsProduct(stage) || stage.domain == Domain::kStatic) continue;
      ++counted.products;
      const int64_t count = loops || stage.domain == Domain::kBatch ? batch : steps * batch;
      counted.split += IsSplitProduct(graph, stage, count, rule) ? 1 : 0;
    }
  }
  return counted;
}

TEST(SplitChoice, NoOtherPrecisionHasPieces) {
  for (const Precision precision : kPrecisions) {
    const LoweredGraph graph = Trained("lstm", 16, precision);
    const Counted all = Count(graph, false, 4, 8, SplitRule::kAlways);
    EXPECT_GT(all.products, 0);
    EXPECT_EQ(all.split, precision == Precision::kBf16x6 ? all.products : 0) << Name(precision);
  }
}

TEST(SplitChoice, AlwaysMeansEveryProductOfRows) {
  for (const std::string& cell : CellNames()) {
    const LoweredGraph graph =
        LowerForDevice(WithGradients(RecurrentGraph(SmallOptions(cell))), Precision::kBf16x6);
    for (const bool loops : {false, true}) {
      const Counted all = Count(graph, loops, 3, 5, SplitRule::kAlways);
      EXPECT_EQ(all.split, all.products) << cell;
      EXPECT_EQ(Count(graph, loops, 0, 5, SplitRule::kAlways).split, loops ? all.products : 0)
          << cell;
    }
  }
}

TEST(SplitChoice, LargeProductsAreSplitAndSmallStepsAreNot) {
  const LoweredGraph graph = Trained("lstm", 1024, Precision::kBf16x6);
  const auto count = [&](bool loops, int64_t steps, int64_t batch) {
    return Count(graph, loops, steps, batch, SplitRule::kWherePays);
  };
  const Counted whole = count(false, 256, 64);
  EXPECT_EQ(whole.split, whole.products) << "the gradients of two weights, x and what it gives";
  EXPECT_EQ(whole.products, 4);
  EXPECT_EQ(count(true, 256, 64).split, 0);
  EXPECT_EQ(count(true, 256, 256).split, count(true, 256, 256).products);
  EXPECT_EQ(count(true, 256, 256).products, 2);
  EXPECT_EQ(count(true, 4, 512).split, 2);
  EXPECT_EQ(count(false, 4, 512).split, 4);
  EXPECT_EQ(count(false, 1, 16).split, 0);
  const LoweredGraph small = Trained("lstm", 32, Precision::kBf16x6);
  EXPECT_EQ(Count(small, false, 100, 32, SplitRule::kWherePays).split, 0);
}

TEST(SplitChoice, SizesAreThoseOfTheProduct) {
  const LoweredGraph graph = Trained("lstm", 1024, Precision::kBf16x6);
  int forward = 0, backward = 0, weights = 0;
  ForEachStage(graph, [&](const Stage& stage) {
    if (!IsProduct(stage) || stage.domain == Domain::kStatic) return;
    const ProductSize size = SizeOfProduct(graph, stage, 7);
    EXPECT_EQ(size.batches, 1);
    forward += size.m == 7 && size.n == 4096 && size.k == 1024 && !size.outer;
    backward += size.m == 7 && size.n == 1024 && size.k == 4096 && !size.outer;
    weights += size.m == 4096 && size.n == 1024 && size.k == 7 && size.outer;
  });
  EXPECT_EQ(forward, 2);
  EXPECT_EQ(backward, 2);
  EXPECT_EQ(weights, 2);
}

}  // namespace
}  // namespace turbolstm
