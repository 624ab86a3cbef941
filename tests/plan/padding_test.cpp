// What is bound at padded steps reaches neither outputs nor gradients.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "plan/recurrent_graphs.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

class Padding : public ::testing::TestWithParam<std::string> {};

TEST_P(Padding, IsNeverRead) {
  RecurrentOptions options = SmallOptions(GetParam());
  options.layers = 2;
  options.bidirectional = true;
  const Graph graph = WithGradients(RecurrentGraph(options));
  Bindings bindings = RandomBindings(graph, 11, {.steps = 6, .batch = 4, .ragged = false});
  bindings.lengths = {3, 6, 0, 1};
  const auto with_padding = [&](double padding) {
    for (const char* name : {"x", "cotangent.y"}) {
      Array& array = bindings.values.at(name);
      const int64_t n = array.shape[2];
      for (int64_t i = 0; i < std::ssize(array.data); ++i) {
        const int64_t row = i / n;
        const bool padded = row / 4 >= bindings.lengths[static_cast<size_t>(row % 4)];
        if (padded) array.data[static_cast<size_t>(i)] = padding;
      }
    }
    return Execute(graph, bindings, {.streams = 2});
  };
  const Outputs got = with_padding(std::nan(""));
  for (const auto& [name, values] : got) {
    EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }))
        << name;
  }
  EXPECT_EQ(with_padding(1e30), got);
  for (int64_t t = 0; t < 6; ++t) {
    for (int64_t b = 0; b < 4; ++b) {
      if (t < bindings.lengths[static_cast<size_t>(b)]) continue;
      for (const char* name : {"y", "d.x"}) {
        const std::vector<float> row = RowOf(got.at(name), 6, 4, b);
        const int64_t n = std::ssize(row) / 6;
        EXPECT_TRUE(std::all_of(row.begin() + t * n, row.begin() + (t + 1) * n,
                                [](float v) { return v == 0; }))
            << name << " at step " << t << " of sequence " << b;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, Padding, ::testing::ValuesIn(CellNames()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace turbolstm
