#include "turbolstm/recurrent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <thread>

#include "base/error.h"

namespace turbolstm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Floats = std::vector<float>;

constexpr int64_t kT = 6;
constexpr int64_t kB = 3;
constexpr int64_t kI = 4;
constexpr int64_t kH = 5;

RecurrentSpec Gru() {
  return {.cell = "gru", .input = kI, .hidden = kH, .given_states = true};
}

CompileOptions Training() {
  return {.gradients = {"x", "h_0_l0", "weight_hh_l0"}, .cotangents = {"y"}, .threads = 2};
}

Floats Waves(int64_t count, double phase) {
  Floats values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(std::sin(phase + static_cast<double>(i))));
  }
  return values;
}

// A run and what is bound to it.
struct Bound {
  explicit Bound(const RecurrentNetwork& network) : run(network.NewRun()) {
    for (const ValueInfo& parameter : network.parameters()) {
      values[parameter.name] = network.InitialValues(parameter.name, 3);
      run->Bind(parameter.name, values[parameter.name]);
    }
  }

  void Bind(const std::string& name, Floats numbers) {
    values[name] = std::move(numbers);
    run->Bind(name, values[name]);
  }

  Floats Read(const std::string& name, int64_t count) {
    Floats numbers(static_cast<size_t>(count));
    run->Read(name, numbers);
    return numbers;
  }

  std::map<std::string, Floats> values;
  std::unique_ptr<RecurrentRun> run;
};

// y and the gradients of a run over all steps.
std::vector<Floats> TrainingStep(const RecurrentNetwork& network,
                                 const std::vector<uint8_t>& resets = {}) {
  Bound bound(network);
  bound.run->SetShape(kT, kB, {}, resets);
  bound.Bind("x", Waves(kT * kB * kI, 0));
  bound.Bind("h_0_l0", Waves(kB * kH, 1));
  bound.run->Forward();
  std::vector<Floats> results = {bound.Read("y", kT * kB * kH)};
  bound.Bind("d.y", Waves(kT * kB * kH, 2));
  bound.run->Backward();
  results.push_back(bound.Read("d.x", kT * kB * kI));
  results.push_back(bound.Read("d.h_0_l0", kB * kH));
  results.push_back(bound.Read("d.weight_hh_l0", 3 * kH * kH));
  return results;
}

TEST(RecurrentNetwork, SaysWhatItHas) {
  RecurrentSpec spec = Gru();
  spec.cell = "lstm";
  spec.bidirectional = true;
  const RecurrentNetwork network(spec);
  std::vector<std::string> states;
  for (const StateInfo& state : network.states()) states.push_back(state.initial);
  EXPECT_THAT(states, ElementsAre("h_0_l0", "c_0_l0", "h_0_l0_reverse", "c_0_l0_reverse"));
  EXPECT_EQ(network.parameters().front().name, "weight_ih_l0");
  EXPECT_THAT(network.parameters().front().features, ElementsAre(4 * kH, kI));
  EXPECT_EQ(network.outputs().front().name, "y");
  EXPECT_THAT(network.outputs().front().features, ElementsAre(2 * kH));
  EXPECT_EQ(ListCells().size(), 14);
}

TEST(RecurrentRun, GradientsAreThoseOfTheOutputs) {
  const RecurrentNetwork network(Gru(), Training());
  const std::vector<Floats> results = TrainingStep(network);
  const Floats upstream = Waves(kT * kB * kH, 2);
  Bound bound(network);
  bound.run->SetShape(kT, kB);
  const auto loss = [&](size_t i, float shift) {
    Floats h = Waves(kB * kH, 1);
    h[i] += shift;
    bound.Bind("x", Waves(kT * kB * kI, 0));
    bound.Bind("h_0_l0", std::move(h));
    bound.run->Forward();
    double sum = 0;
    const Floats y = bound.Read("y", kT * kB * kH);
    for (size_t j = 0; j < y.size(); ++j) sum += double{y[j]} * double{upstream[j]};
    return sum;
  };
  for (size_t i = 0; i < static_cast<size_t>(kB * kH); i += 4) {
    EXPECT_NEAR(results[2][i], (loss(i, 1e-2F) - loss(i, -1e-2F)) / 2e-2, 1e-3) << i;
  }
}

TEST(RecurrentRun, ResetsStartFromZerosWhateverIsGiven) {
  const RecurrentNetwork network(Gru(), Training());
  std::vector<uint8_t> resets(static_cast<size_t>(kT * kB), 0);
  std::fill_n(resets.begin(), kB, 1);
  const std::vector<Floats> reset = TrainingStep(network, resets);
  EXPECT_EQ(reset[2], Floats(static_cast<size_t>(kB * kH), 0.0F));

  Bound bound(network);
  bound.run->SetShape(kT, kB);
  bound.Bind("x", Waves(kT * kB * kI, 0));
  bound.Bind("h_0_l0", Floats(static_cast<size_t>(kB * kH), 0.0F));
  bound.run->Forward();
  EXPECT_EQ(bound.Read("y", kT * kB * kH), reset[0]);
  EXPECT_NE(TrainingStep(network)[0], reset[0]);
}

TEST(RecurrentRun, SeveralThreadsHaveTheSameBits) {
  const RecurrentNetwork network(Gru(), Training());
  const std::vector<Floats> wanted = TrainingStep(network);
  std::vector<std::thread> threads;
  std::vector<int> wrong(3, 0);
  for (int& count : wrong) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) count += TrainingStep(network) != wanted;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0));
}

TEST(RecurrentNetwork, SaysWhatDoesNotFit) {
  const auto make = [](const RecurrentSpec& spec, const CompileOptions& options = {}) {
    return [=] { const RecurrentNetwork network(spec, options); };
  };
  RecurrentSpec spec = Gru();
  spec.cell = "grue";
  EXPECT_THAT(make(spec), ThrowsMessage<Error>(HasSubstr("there is no cell 'grue'")));
  spec = Gru();
  spec.input = 0;
  EXPECT_THAT(make(spec), ThrowsMessage<Error>(HasSubstr("input size 0, wants > 0")));
  EXPECT_THAT(make(Gru(), {.gradients = {"x"}}), ThrowsMessage<Error>(HasSubstr("both or none")));
  EXPECT_THAT(make(Gru(), {.gradients = {"y"}, .cotangents = {"y"}}),
              ThrowsMessage<Error>(HasSubstr("no 'y' to differentiate by")));
  EXPECT_THAT(make(Gru(), {.precision = "bf16x6"}),
              ThrowsMessage<Error>(HasSubstr("bf16x6 needs a GPU")));
  EXPECT_THAT(make(Gru(), {.threads = -2}), ThrowsMessage<Error>(HasSubstr("[threads] got -2")));
}

TEST(RecurrentRun, SaysWhatDoesNotFit) {
  const RecurrentNetwork inference(Gru());
  Bound bound(inference);
  EXPECT_THAT([&] { bound.run->SetShape(int64_t{1} << 31, 1); },
              ThrowsMessage<Error>(HasSubstr("wants at most 1048576")));
  bound.run->SetShape(kT, kB);
  EXPECT_THAT([&] { bound.run->Forward(); }, ThrowsMessage<Error>(HasSubstr("is not bound")));
  EXPECT_THAT([&] { bound.run->Backward(); },
              ThrowsMessage<Error>(HasSubstr("compiled without gradients")));
  EXPECT_THAT([&] { bound.Bind("z", {}); }, ThrowsMessage<Error>(HasSubstr("there is no 'z'")));
  EXPECT_THAT([&] { bound.Bind("x", Floats(7)); }, ThrowsMessage<Error>(HasSubstr("'x'")));
  bound.Bind("x", Waves(kT * kB * kI, 0));
  bound.Bind("h_0_l0", Waves(kB * kH, 1));
  bound.run->Forward();
  EXPECT_THAT([&] { bound.Read("y", 1); }, ThrowsMessage<Error>(HasSubstr("got room for 1")));
  EXPECT_NO_THROW(bound.Read("y", kT * kB * kH));
}

}  // namespace
}  // namespace turbolstm
