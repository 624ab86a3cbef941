// States carried from call to call, cut by resets, or not given at all.

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/walk.h"
#include "kernels/cell_kernels.h"
#include "plan/recurrent_graphs.h"
#include "testing/dice.h"
#include "testing/random_bindings.h"
#include "testing/sanitized.h"

namespace turbolstm {
namespace {

constexpr int64_t kT = 12;
constexpr int64_t kB = 3;

class CarriedState : public ::testing::TestWithParam<std::string> {
 protected:
  static void ExpectResetEqualsSplitting(const Graph& graph, uint8_t reset);

  static Graph GraphOf(InitialState initial) {
    RecurrentOptions options = SmallOptions(GetParam());
    options.layers = 2;
    options.initial = initial;
    return RecurrentGraph(options);
  }
};

std::string InitialOf(std::string final_state) {
  return final_state.replace(final_state.find("_n_l"), 2, "_0");
}

// Steps [begin, end) of values [T, B, n].
Array StepsOf(const Array& array, int64_t begin, int64_t end) {
  const int64_t row = array.shape[0] == 0 ? 0 : std::ssize(array.data) / array.shape[0];
  Array part{array.shape, {array.data.begin() + begin * row, array.data.begin() + end * row}};
  part.shape[0] = end - begin;
  return part;
}

TEST_P(CarriedState, NoneEqualsZeros) {
  const Graph without = GraphOf(InitialState::kZero);
  const Graph given = GraphOf(InitialState::kGiven);
  Bindings bindings = RandomBindings(given, 2, {.steps = kT, .batch = kB, .ragged = true});
  for (auto& [name, array] : bindings.values) {
    if (name.find("_0_l") != name.npos) std::fill(array.data.begin(), array.data.end(), 0.0);
  }
  const Outputs zeros = Execute(given, bindings, {.streams = 2});
  std::erase_if(bindings.values,
                [](const auto& entry) { return entry.first.find("_0_l") != std::string::npos; });
  EXPECT_EQ(Execute(without, bindings, {.streams = 2}), zeros);
}

// Calls of one step, and of a few, give the bits of one long call.
TEST_P(CarriedState, ChunksEqualTheWhole) {
  const Graph graph = GraphOf(InitialState::kGiven);
  const Bindings whole = RandomBindings(graph, 3, {.steps = kT, .batch = kB, .ragged = false});
  const Outputs wanted = Execute(graph, whole, {.streams = 2});
  for (const int64_t chunk : {1, 5}) {
    Bindings part = whole;
    std::vector<float> y;
    Outputs got;
    Executable executable(graph, {.streams = 2});
    for (int64_t begin = 0; begin < kT; begin += chunk) {
      const int64_t end = std::min(begin + chunk, kT);
      part.steps = end - begin;
      part.values["x"] = StepsOf(whole.values.at("x"), begin, end);
      RunOn(&executable, part);
      for (const auto& [name, id] : graph.outputs()) {
        const std::span<const float> values = executable.Output(name);
        got[name] = {values.begin(), values.end()};
        if (name != "y") part.values[InitialOf(name)].data = {values.begin(), values.end()};
      }
      y.insert(y.end(), got["y"].begin(), got["y"].end());
    }
    got["y"] = y;
    EXPECT_EQ(got, wanted) << "chunks of " << chunk;
  }
}

// A reset before step 5 of every sequence is a new call from there on: the same numbers, and no
// gradient over the cut.
void CarriedState::ExpectResetEqualsSplitting(const Graph& graph, uint8_t reset) {
  constexpr int64_t kCut = 5;
  Bindings whole = RandomBindings(graph, 4, {.steps = kT, .batch = kB, .ragged = false});
  for (auto& [name, array] : whole.values) {
    // The first part's end is not seen.
    if (name.starts_with("cotangent.") && name != "cotangent.y") {
      std::fill(array.data.begin(), array.data.end(), 0.0);
    }
  }
  Bindings part = whole;
  whole.resets.assign(static_cast<size_t>(kT * kB), 0);
  std::fill_n(whole.resets.begin() + kCut * kB, kB, reset);
  const Outputs wanted = Execute(graph, whole, {.streams = 2});
  EXPECT_EQ(Differences(graph, whole, wanted, kFloat32Tolerance), "");

  std::vector<Outputs> parts;
  for (const auto& [begin, end] : {std::pair{int64_t{0}, kCut}, std::pair{kCut, kT}}) {
    part.steps = end - begin;
    for (const char* name : {"x", "cotangent.y"}) {
      part.values[name] = StepsOf(whole.values.at(name), begin, end);
    }
    // What a reset restarts from is the bound initial state or zero.
    for (auto& [name, array] : part.values) {
      const bool zero = begin > 0 && reset == kResetToZero && name.find("_0_l") != name.npos;
      if (zero) std::fill(array.data.begin(), array.data.end(), 0.0);
    }
    parts.push_back(Execute(graph, part, {.streams = 2}));
  }
  for (const char* name : {"y", "d.x"}) {
    std::vector<float> joined = parts[0].at(name);
    joined.insert(joined.end(), parts[1].at(name).begin(), parts[1].at(name).end());
    EXPECT_EQ(joined, wanted.at(name)) << name;
  }
  for (const auto& [name, id] : graph.outputs()) {
    if (name.find("_n_l") != name.npos) {
      EXPECT_EQ(parts[1].at(name), wanted.at(name)) << name;
    } else if (graph.node(id).domain == Domain::kStatic || name.find("_0_l") != name.npos) {
      std::vector<double> sum;
      const bool cut = reset == kResetToZero && graph.node(id).domain == Domain::kBatch;
      for (size_t i = 0; i < wanted.at(name).size(); ++i) {
        sum.push_back(double{parts[0].at(name)[i]} + (cut ? 0 : parts[1].at(name)[i]));
      }
      EXPECT_EQ(Difference(name, sum, wanted.at(name), kFloat32Tolerance), "");
    }
  }
}

TEST_P(CarriedState, ResetsEqualSplitting) {
  for (const uint8_t reset : {kResetToInit, kResetToZero}) {
    SCOPED_TRACE(int{reset});
    ExpectResetEqualsSplitting(WithGradients(GraphOf(InitialState::kGiven)), reset);
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, CarriedState, ::testing::ValuesIn(CellNames()),
                         [](const auto& param) { return param.param; });

// The same at a length that others refuse (a shorter one under a sanitizer), with the backward pass
// carried over the chunks too.
TEST(LongSequence, EqualsTwoHalves) {
  constexpr int64_t kSteps = TL_SANITIZED ? 4096 : 65536;
  constexpr int64_t kRows = 2;
  constexpr int64_t kInput = 4;
  constexpr int64_t kHidden = 128;
  RecurrentOptions options;
  options.size.input = kInput;
  options.size.hidden = kHidden;
  options.initial = InitialState::kGiven;
  const Graph graph = WithGradients(RecurrentGraph(options));
  RegisterCellKernels();
  Executable executable(graph, {.streams = 2});
  std::map<std::string, std::vector<float>> values;
  executable.SetShape(kSteps, kRows);
  uint64_t seed = 1;
  for (const NamedView& input : executable.lowered().inputs) {
    const int64_t rows = input.domain == Domain::kStep    ? kSteps * kRows
                         : input.domain == Domain::kBatch ? kRows
                                                          : 1;
    Dice dice(seed++);
    std::vector<float>& v = values[input.name];
    for (int64_t i = 0; i < rows * input.view.width; ++i) {
      v.push_back(static_cast<float>(dice.Real(-0.1, 0.1)));
    }
  }
  const auto run = [&](int64_t begin, int64_t end, const Outputs& carried) {
    executable.SetShape(end - begin, kRows);
    for (const NamedView& input : executable.lowered().inputs) {
      std::span<const float> v = values.at(input.name);
      if (carried.contains(input.name)) v = carried.at(input.name);
      if (input.domain == Domain::kStep) {
        const auto row = static_cast<size_t>(kRows * input.view.width);
        v = v.subspan(static_cast<size_t>(begin) * row, static_cast<size_t>(end - begin) * row);
      }
      executable.Bind(input.name, v);
    }
    executable.Run({.training = true});
    Outputs outputs;
    for (const auto& [name, id] : graph.outputs()) {
      const std::span<const float> v = executable.Output(name);
      outputs[name] = {v.begin(), v.end()};
    }
    return outputs;
  };
  const Outputs whole = run(0, kSteps, {});
  const Outputs start = run(0, kSteps / 2, {});
  const Outputs second =
      run(kSteps / 2, kSteps,
          {{"rnn.h_0_l0", start.at("rnn.h_n_l0")}, {"rnn.c_0_l0", start.at("rnn.c_n_l0")}});
  const Outputs first = run(0, kSteps / 2,
                            {{"cotangent.rnn.h_n_l0", second.at("d.rnn.h_0_l0")},
                             {"cotangent.rnn.c_n_l0", second.at("d.rnn.c_0_l0")}});
  for (const char* name : {"y", "d.x"}) {
    std::vector<float> joined = first.at(name);
    joined.insert(joined.end(), second.at(name).begin(), second.at(name).end());
    EXPECT_TRUE(joined == whole.at(name)) << name;
  }
  EXPECT_EQ(second.at("rnn.c_n_l0"), whole.at("rnn.c_n_l0"));
  EXPECT_EQ(first.at("d.rnn.c_0_l0"), whole.at("d.rnn.c_0_l0"));
  for (const auto& [name, id] : graph.outputs()) {
    if (graph.node(id).domain != Domain::kStatic) continue;
    std::vector<double> sum;
    for (size_t i = 0; i < whole.at(name).size(); ++i) {
      sum.push_back(double{first.at(name)[i]} + second.at(name)[i]);
    }
    EXPECT_EQ(Difference(name, sum, whole.at(name), kFloat32Tolerance), "");
  }
}

}  // namespace
}  // namespace turbolstm
