// A run in two halves, as a forward and a backward pass that somebody else's work lies between.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <list>

#include "base/error.h"
#include "graph/passes/lower_transforms.h"
#include "plan/recurrent_graphs.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Graph TrainingGraph(const std::string& cell, bool bidirectional) {
  RecurrentOptions options = SmallOptions(cell);
  options.layers = 2;
  options.dropout = 0.4;
  options.bidirectional = bidirectional;
  options.initial = InitialState::kGiven;
  return WithGradients(RecurrentGraph(options));
}

bool IsCotangent(const std::string& name) {
  return name.starts_with("cotangent");
}

std::vector<std::string> Cotangents(const Bindings& bindings) {
  std::vector<std::string> names;
  for (const auto& [name, array] : bindings.values) {
    if (IsCotangent(name)) names.push_back(name);
  }
  return names;
}

// Values that are bound, as long as they have to be kept.
class BoundInHalves {
 public:
  BoundInHalves(Executable* executable, const Bindings& bindings)
      : executable_(*executable), bindings_(bindings) {
    const std::vector<int32_t> lengths(bindings.lengths.begin(), bindings.lengths.end());
    executable_.SetShape(bindings.steps, bindings.batch, lengths, bindings.resets);
  }

  void Bind(bool late) {
    for (const auto& [name, array] : bindings_.values) {
      if (IsCotangent(name) != late) continue;
      values_.push_back(Narrow(array));
      executable_.Bind(name, values_.back());
    }
  }

  RunOptions Options() const {
    return {bindings_.training, bindings_.seed, bindings_.training_step};
  }

 private:
  Executable& executable_;
  const Bindings& bindings_;
  std::list<std::vector<float>> values_;
};

Outputs Read(Executable* executable, bool gradients) {
  Outputs outputs;
  for (const NamedView& output : executable->lowered().outputs) {
    if (output.name.starts_with("d.") && !gradients) continue;
    const std::span<const float> values = executable->Output(output.name);
    outputs[output.name] = {values.begin(), values.end()};
  }
  return outputs;
}

class Halves : public ::testing::TestWithParam<std::string> {};

TEST_P(Halves, HaveTheBitsOfAWholeRun) {
  for (const bool bidirectional : {false, true}) {
    const Graph graph = TrainingGraph(GetParam(), bidirectional);
    for (uint64_t seed = 0; seed < 6; ++seed) {
      Bindings bindings = RandomBindings(graph, seed, RandomBindingsOptionsFor(seed));
      bindings.training = true;
      for (ExecutableOptions options : VerifiedPlans()) {
        if (options.recompute) continue;  // has no halves
        const Outputs whole = Execute(graph, bindings, options);
        options.late_inputs = Cotangents(bindings);
        Executable executable(graph, options);
        BoundInHalves bound(&executable, bindings);
        bound.Bind(false);
        executable.RunEarly(bound.Options());
        for (const auto& [name, values] : Read(&executable, false)) {
          EXPECT_EQ(values, whole.at(name)) << name << " between the halves, seed " << seed;
        }
        bound.Bind(true);
        executable.RunLate();
        EXPECT_EQ(Read(&executable, true), whole) << "seed " << seed;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, Halves, ::testing::ValuesIn(CellNames()),
                         [](const auto& param) { return param.param; });

TEST(HalvesMisuse, IsSaid) {
  const Graph graph = TrainingGraph("lstm", false);
  const Bindings bindings = RandomBindings(graph, 1, {.steps = 3, .batch = 2});
  Executable whole(graph, {.streams = 1});
  EXPECT_THAT([&] { whole.RunEarly(); }, ThrowsMessage<Error>(HasSubstr("no halves")));
  EXPECT_THAT(
      [&] {
        const Executable both(graph, {.recompute = true, .late_inputs = Cotangents(bindings)});
      },
      ThrowsMessage<Error>(HasSubstr("computes activations again has no halves")));
  EXPECT_THAT([&] { Executable(graph, {.streams = 1, .late_inputs = {"nothing"}}).SetShape(1, 1); },
              ThrowsMessage<Error>(HasSubstr("no input 'nothing'")));
  Executable halves(graph, {.streams = 1, .late_inputs = Cotangents(bindings)});
  BoundInHalves bound(&halves, bindings);
  bound.Bind(false);
  EXPECT_THAT(
      [&] { halves.RunLate(); },
      ThrowsMessage<Error>(HasSubstr("second half (backward) follows a first half (forward)")));
  halves.RunEarly();
  EXPECT_THAT([&] { halves.Output("d.x"); }, ThrowsMessage<Error>(HasSubstr("second half")));
  EXPECT_THAT([&] { halves.RunLate(); }, ThrowsMessage<Error>(HasSubstr("not bound")));
  bound.Bind(true);
  halves.RunLate();
  EXPECT_NO_THROW(halves.Output("d.x"));
  EXPECT_THAT([&] { halves.RunLate(); }, ThrowsMessage<Error>(HasSubstr("once")));
}

// Rows as a PackedSequence has them, in and out, against the padded layout.
TEST(Rows, EqualThePaddedOnes) {
  const Graph graph = RecurrentGraph(SmallOptions("gru"));
  const std::vector<int32_t> lengths = {4, 4, 2, 0};
  Bindings bindings = RandomBindings(graph, 3, {.steps = 4, .batch = 4});
  bindings.lengths = {lengths.begin(), lengths.end()};
  double element = 0;
  for (double& value : bindings.values.at("x").data) value = std::sin(++element);
  Executable executable(graph, {.streams = 2, .verify = true});
  const Outputs padded = RunAndRead(&executable, bindings);

  const auto pack = [&](const std::vector<float>& values) {
    const size_t n = values.size() / 16;
    std::vector<float> packed;
    for (size_t t = 0; t < 4; ++t) {
      for (size_t b = 0; b < 4; ++b) {
        if (static_cast<int32_t>(t) >= lengths[b]) continue;
        const auto begin = values.begin() + static_cast<ptrdiff_t>((t * 4 + b) * n);
        packed.insert(packed.end(), begin, begin + static_cast<ptrdiff_t>(n));
      }
    }
    return packed;
  };
  const std::vector<float> x = pack(Narrow(bindings.values.at("x")));
  executable.BindRows("x", x);
  std::list<std::vector<float>> parameters;
  for (const auto& [name, array] : bindings.values) {
    if (name != "x") executable.Bind(name, parameters.emplace_back(Narrow(array)));
  }
  executable.Run();
  const std::span<const float> y = executable.OutputRows("y");
  EXPECT_EQ(std::vector<float>(y.begin(), y.end()), pack(padded.at("y")));
  const std::span<const float> last = executable.Output("rnn.h_n_l0");
  EXPECT_EQ(std::vector<float>(last.begin(), last.end()), padded.at("rnn.h_n_l0"));
  EXPECT_THAT([&] { executable.BindRows("x", std::span(x).subspan(1)); },
              ThrowsMessage<Error>(HasSubstr("10 rows of 5")));
}

}  // namespace
}  // namespace turbolstm
