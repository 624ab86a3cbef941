// Batches at the edges of what is legal: empty sequences, no steps, no sequences, one of each; and
// lengths that are not legal.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "plan/recurrent_graphs.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class EdgeShapes : public ::testing::TestWithParam<std::string> {
 protected:
  // Two bidirectional layers with given initial states, and all gradients.
  Graph TrainingGraph() const {
    RecurrentOptions options = SmallOptions(GetParam());
    options.layers = 2;
    options.bidirectional = true;
    options.initial = InitialState::kGiven;
    return WithGradients(RecurrentGraph(options));
  }
};

bool IsFinalState(const std::string& output) {
  return output.starts_with("rnn.") && output.find("_n_l") != output.npos;
}

// "rnn.h_0_l1" for "rnn.h_n_l1".
std::string InitialOf(std::string final_state) {
  return final_state.replace(final_state.find("_n_l"), 2, "_0");
}

void ExpectZero(const std::vector<float>& values) {
  for (const float v : values) EXPECT_EQ(v, 0.0f);
}

// An empty sequence hands its initial state on, and the gradient of its final state back.
void ExpectPassedThrough(const Outputs& got, const Bindings& bindings, int64_t b) {
  const auto bound = [&](const std::string& name) {
    return RowOf(Narrow(bindings.values.at(name)), 1, bindings.batch, b);
  };
  for (const auto& [name, values] : got) {
    if (!IsFinalState(name)) continue;
    EXPECT_EQ(RowOf(values, 1, bindings.batch, b), bound(InitialOf(name))) << name;
    EXPECT_EQ(RowOf(got.at("d." + InitialOf(name)), 1, bindings.batch, b),
              bound("cotangent." + name))
        << name;
  }
}

TEST_P(EdgeShapes, EmptySequencesAmongOthers) {
  const Graph graph = TrainingGraph();
  Bindings bindings = RandomBindings(graph, 5, {.steps = 4, .batch = 4, .ragged = false});
  bindings.lengths = {0, 4, 0, 2};
  const Outputs got = Execute(graph, bindings, {.streams = 2, .verify = true});
  EXPECT_EQ(Differences(graph, bindings, got, kFloat32Tolerance), "");
  for (const int64_t b : {0, 2}) {
    ExpectZero(RowOf(got.at("y"), 4, 4, b));
    ExpectZero(RowOf(got.at("d.x"), 4, 4, b));
    ExpectPassedThrough(got, bindings, b);
  }
}

TEST_P(EdgeShapes, NoSteps) {
  const Graph graph = TrainingGraph();
  const Bindings bindings = RandomBindings(graph, 6, {.steps = 0, .batch = 3, .ragged = false});
  const Outputs got = Execute(graph, bindings, {.streams = 2, .verify = true});
  EXPECT_TRUE(got.at("y").empty());
  EXPECT_TRUE(got.at("d.x").empty());
  for (int64_t b = 0; b < 3; ++b) ExpectPassedThrough(got, bindings, b);
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::kParameter) ExpectZero(got.at("d." + node.name));
  }
}

TEST_P(EdgeShapes, NoSequences) {
  const Graph graph = TrainingGraph();
  const Bindings bindings = RandomBindings(graph, 7, {.steps = 5, .batch = 0, .ragged = false});
  const Outputs got = Execute(graph, bindings, {.streams = 2, .verify = true});
  for (const auto& [name, id] : graph.outputs()) {
    if (graph.node(id).domain == Domain::kStatic) {
      EXPECT_EQ(std::ssize(got.at(name)), ElementCount(graph.node(id).features));
      ExpectZero(got.at(name));
    } else {
      EXPECT_TRUE(got.at(name).empty()) << name;
    }
  }
}

TEST_P(EdgeShapes, OneStepOfOneSequence) {
  const Graph graph = TrainingGraph();
  const Bindings bindings = RandomBindings(graph, 8, {.steps = 1, .batch = 1, .ragged = false});
  EXPECT_EQ(Differences(graph, bindings, Execute(graph, bindings, {.streams = 2, .verify = true}),
                        kFloat32Tolerance),
            "");
}

INSTANTIATE_TEST_SUITE_P(Cells, EdgeShapes, ::testing::ValuesIn(CellNames()),
                         [](const auto& param) { return param.param; });

// Sizes around those of vectors and tiles, in every combination.
TEST(SmallSizes, AgreeWithTheInterpreter) {
  const std::vector<int64_t> sizes = {1, 2, 17};
  for (const char* cell : {"lstm", "gru"}) {
    for (const int64_t input : sizes) {
      for (const int64_t hidden : sizes) {
        RecurrentOptions options;
        options.cell = cell;
        options.size.input = input;
        options.size.hidden = hidden;
        const Graph graph = WithGradients(RecurrentGraph(options));
        Executable executable(graph, {.streams = 2});
        for (const int64_t steps : sizes) {
          for (const int64_t batch : sizes) {
            SCOPED_TRACE(fmt::format("{} T{} B{} I{} H{}", cell, steps, batch, input, hidden));
            const Bindings bindings =
                RandomBindings(graph, 3, {.steps = steps, .batch = batch, .ragged = false});
            EXPECT_EQ(
                Differences(graph, bindings, RunAndRead(&executable, bindings), kFloat32Tolerance),
                "");
          }
        }
      }
    }
  }
}

TEST(ShortSequences, EqualTheBeginningOfALongOne) {
  const Graph graph = RecurrentGraph(SmallOptions("lstm"));
  Bindings bindings = RandomBindings(graph, 4, {.steps = 8, .batch = 3, .ragged = false});
  Executable executable(graph, {.streams = 2});
  const std::vector<float> whole = RunAndRead(&executable, bindings).at("y");
  Array& x = bindings.values.at("x");
  for (int64_t steps = 8; steps >= 0; --steps) {
    bindings.steps = steps;
    x.shape[0] = steps;
    x.data.resize(static_cast<size_t>(steps * 3 * x.shape[2]));
    const std::vector<float> y = RunAndRead(&executable, bindings).at("y");
    EXPECT_TRUE(std::equal(y.begin(), y.end(), whole.begin())) << steps << " steps";
  }
}

// Where 16 bits of a row's number would overflow.
TEST(ManyRows, EachEqualsItsOwnRun) {
  const Graph graph = RecurrentGraph(SmallOptions("lstm"));
  Executable executable(graph, {.streams = 2});
  for (const int64_t rows : {65535, 65536, 65537}) {
    for (const int64_t batch : {rows, int64_t{2}}) {
      const Bindings many = RandomBindings(
          graph, 5, {.steps = (rows + batch - 1) / batch, .batch = batch, .ragged = false});
      const std::vector<float> y = RunAndRead(&executable, many).at("y");
      for (const int64_t b : {int64_t{0}, batch - 1}) {
        Bindings one = many;
        one.batch = 1;
        Array& x = one.values.at("x");
        const int64_t n = x.shape[2];
        x.shape[1] = 1;
        x.data.clear();
        for (int64_t t = 0; t < many.steps; ++t) {
          const auto begin = many.values.at("x").data.begin() + (t * batch + b) * n;
          x.data.insert(x.data.end(), begin, begin + n);
        }
        EXPECT_TRUE(RunAndRead(&executable, one).at("y") == RowOf(y, many.steps, batch, b))
            << rows << " rows, sequence " << b << " of " << batch;
      }
    }
  }
}

class Lengths : public ::testing::Test {
 protected:
  Lengths()
      : graph_(RecurrentGraph(SmallOptions("lstm"))),
        bindings_(RandomBindings(graph_, 9, {.steps = 6, .batch = 3, .ragged = false})),
        executable_(graph_, {.streams = 2}) {}

  std::vector<float> OutputWith(const std::vector<int64_t>& lengths) {
    bindings_.lengths = lengths;
    RunOn(&executable_, bindings_);
    const std::span<const float> y = executable_.Output("y");
    return {y.begin(), y.end()};
  }

  Graph graph_;
  Bindings bindings_;
  Executable executable_;
};

TEST_F(Lengths, AllFullEqualNone) {
  const std::vector<float> none = OutputWith({});
  EXPECT_EQ(OutputWith({6, 6, 6}), none);
}

TEST_F(Lengths, OutsideTheStepsAreRejectedByPlaceAndValue) {
  const std::vector<float> before = OutputWith({6, 2, 3});
  EXPECT_THAT(
      [&] {
        OutputWith({6, 7, 3});
      },
      ThrowsMessage<Error>(HasSubstr("[lengths] entry 1 is 7, wants 0 to 6")));
  EXPECT_THAT(
      [&] {
        OutputWith({6, 2, -1});
      },
      ThrowsMessage<Error>(HasSubstr("[lengths] entry 2 is -1, wants 0 to 6")));
  EXPECT_THAT([&] { OutputWith({6, 2}); }, ThrowsMessage<Error>(HasSubstr("[lengths] got 2")));
  EXPECT_EQ(OutputWith({6, 2, 3}), before) << "unusable after errors";
}

}  // namespace
}  // namespace turbolstm
