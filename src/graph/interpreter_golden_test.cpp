// Known answers of LSTM and GRU, published by ONNX Runtime or checked with scalar loops, on graphs
// written out by hand.

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/interpreter.h"
#include "graph/text.h"

namespace turbolstm {
namespace {

constexpr double kTolerance = 2e-8;  // the published digits

using Data = std::vector<double>;

// Gate rows as in ONNX: i o f c. `h` is the hidden size; `f` and `clipped` say how the forget gate
// and the pre-activations come about.
std::string LstmText(int64_t h, const std::string& f, bool clip, bool reverse) {
  const std::string direction = reverse ? " reverse" : "";
  std::string text = fmt::format(
      "input x: step[1]\n"
      "input h0: batch[{0}]\n"
      "input c0: batch[{0}]\n"
      "parameter w: static[{1}, 1]\n"
      "parameter r: static[{1}, {0}]\n"
      "parameter bias: static[{1}]\n",
      h, 4 * h);
  const auto step = [&](const std::string& name, int64_t n, const std::string& value) {
    text += fmt::format("{}: step[{}] = {}{}\n", name, n, value, direction);
  };
  text += "top: static[1] = constant() number=1\nbottom: static[1] = constant() number=-1\n";
  step("wx", 4 * h, "matmul(w, x)");
  step("rh", 4 * h, "matmul(r, h@1(init=h0))");
  step("sum", 4 * h, "add(wx, rh, bias)");
  step("low", 4 * h, clip ? "min(sum, top)" : "identity(sum)");
  step("a", 4 * h, clip ? "max(low, bottom)" : "identity(low)");
  const char* gates[] = {"ai", "ao", "af", "ac"};
  for (int64_t k = 0; k < 4; ++k) {
    step(gates[k], h, fmt::format("slice(a) begin={} size={}", k * h, h));
  }
  step("i", h, "sigmoid(ai)");
  step("o", h, "sigmoid(ao)");
  step("f", h, f);
  step("g", h, "tanh(ac)");
  step("kept", h, "mul(f, c@1(init=c0))");
  step("new", h, "mul(i, g)");
  step("c", h, "add(kept, new)");
  step("t", h, "tanh(c)");
  step("h", h, "mul(o, t)");
  text += fmt::format("h_n: batch[{}] = final(h@1(init=h0)){}\n", h, direction);
  text += fmt::format("c_n: batch[{}] = final(c@1(init=c0)){}\n", h, direction);
  return text + "output y = h\noutput h_n = h_n\noutput c_n = c_n\n";
}

void ExpectNear(const Data& got, const Data& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], kTolerance) << "at " << i;
}

// G1: two steps, two sequences, three hidden units.
struct TwoSequences {
  Bindings bindings;

  TwoSequences() {
    bindings.steps = 2;
    bindings.batch = 2;
    bindings.values["x"] = {{2, 2, 1}, {1, 2, 10, 11}};
    bindings.values["h0"] = {{2, 3}, Data(6)};
    bindings.values["c0"] = {{2, 3}, Data(6)};
    bindings.values["w"] = {{12, 1}, {.1, .2, .3, .4, 1, 2, 3, 4, 10, 11, 12, 13}};
    bindings.values["r"] = {{12, 3}, Data(36, .1)};
    bindings.values["bias"] = {{12}, Data(12)};
  }

  Data Run(const std::string& output, bool reverse) const {
    const Graph graph = ParseGraph(LstmText(3, "sigmoid(af)", false, reverse));
    return Interpret(graph, bindings).at(output).data;
  }
};

TEST(GoldenLstm, Forward) {
  const TwoSequences lstm;
  ExpectNear(lstm.Run("h_n", false),
             {.84196719, .89402526, .91073048, .85882828, .90703777, .92382452});
  ExpectNear(lstm.Run("c_n", false),
             {1.27731147, 1.44181041, 1.53179041, 1.3249796, 1.51063103, 1.61451543});
}

TEST(GoldenLstm, Reverse) {
  const TwoSequences lstm;
  ExpectNear(lstm.Run("h_n", true),
             {.55391603, .69201493, .82696019, .64046412, .82303363, .9161071});
}

TEST(GoldenLstm, AShorterSequenceLeavesTheOtherAlone) {
  for (const bool reverse : {false, true}) {
    SCOPED_TRACE(reverse);
    TwoSequences lstm;
    const Data all = lstm.Run("h_n", reverse);
    lstm.bindings.lengths = {1, 2};
    ExpectNear(lstm.Run("h_n", reverse), {.28828835, .36581863, .45679406, all[3], all[4], all[5]});
    const Data c = lstm.Run("c_n", reverse);
    ExpectNear({c[0], c[1], c[2]}, {.52497919, .549834, .57444252});
    const Data y = lstm.Run("y", reverse);
    EXPECT_EQ(Data(y.begin() + 6, y.begin() + 9), Data(3, 0.0));
  }
}

TEST(GoldenLstm, AnEmptySequenceKeepsItsInitialState) {
  for (const bool reverse : {false, true}) {
    SCOPED_TRACE(reverse);
    TwoSequences lstm;
    const Data all = lstm.Run("h_n", reverse);
    lstm.bindings.lengths = {0, 2};
    lstm.bindings.values["h0"].data = {.25, -.5, .75, 0, 0, 0};
    lstm.bindings.values["c0"].data = {-1, .5, 2, 0, 0, 0};
    EXPECT_EQ(lstm.Run("h_n", reverse), (Data{.25, -.5, .75, all[3], all[4], all[5]}));
    const Data c = lstm.Run("c_n", reverse);
    EXPECT_EQ(Data(c.begin(), c.begin() + 3), (Data{-1, .5, 2}));
    const Data y = lstm.Run("y", reverse);
    for (const size_t i : {0, 1, 2, 6, 7, 8}) EXPECT_EQ(y[i], 0);
  }
}

// G4: three steps of one unit.
Data RunOneUnit(const std::string& f, bool clip, const std::string& output) {
  Bindings bindings;
  bindings.steps = 3;
  bindings.batch = 1;
  bindings.values["x"] = {{3, 1, 1}, {2, -1, 3}};
  bindings.values["h0"] = {{1, 1}, {0}};
  bindings.values["c0"] = {{1, 1}, {0}};
  bindings.values["w"] = {{4, 1}, {1, .5, -.5, 2}};
  bindings.values["r"] = {{4, 1}, {.1, .2, .3, .4}};
  bindings.values["bias"] = {{4}, Data(4)};
  return Interpret(ParseGraph(LstmText(1, f, clip, false)), bindings).at(output).data;
}

TEST(GoldenLstm, Plain) {
  ExpectNear(RunOneUnit("sigmoid(af)", false, "y"), {.51650946, .1226755, .62964442});
  ExpectNear(RunOneUnit("sigmoid(af)", false, "c_n"), {1.01234945});
}

TEST(GoldenLstm, CoupledInputAndForgetGates) {
  ExpectNear(RunOneUnit("sub(top, i)", false, "y"), {.51650946, .14243558, .61546389});
}

TEST(GoldenLstm, ClippedInputsOfActivations) {
  ExpectNear(RunOneUnit("sigmoid(af)", true, "y"), {.36960635, .05899678, .39117416});
}

// G7: all gates open; the cell counts the steps.
TEST(GoldenLstm, CountsAThousandSteps) {
  Bindings bindings;
  bindings.steps = 1000;
  bindings.batch = 1;
  bindings.values["x"] = {{1000, 1, 1}, Data(1000)};
  bindings.values["h0"] = {{1, 1}, {0}};
  bindings.values["c0"] = {{1, 1}, {0}};
  bindings.values["w"] = {{4, 1}, Data(4)};
  bindings.values["r"] = {{4, 1}, Data(4)};
  bindings.values["bias"] = {{4}, Data(4, 200)};
  const Graph graph = ParseGraph(LstmText(1, "sigmoid(af)", false, false));
  EXPECT_EQ(Interpret(graph, bindings).at("c_n").data, Data{1000});
}

// G8: a GRU whose hidden bias b_hn alone is not zero: h1 = (1 - z) tanh(r b_hn), r = z = 1/2.
TEST(GoldenGru, TheHiddenBiasCountsWithoutAHiddenState) {
  const Graph graph = ParseGraph(
      "parameter b_hn: static[1]\n"
      "parameter zero: static[1]\n"
      "one: static[1] = constant() number=1\n"
      "r: step[1] = sigmoid(zero)\n"
      "z: step[1] = sigmoid(zero)\n"
      "rn: step[1] = mul(r, b_hn)\n"
      "n: step[1] = tanh(rn)\n"
      "rest: step[1] = sub(one, z)\n"
      "new: step[1] = mul(rest, n)\n"
      "kept: step[1] = mul(z, h@1)\n"
      "h: step[1] = add(new, kept)\n"
      "output h = h\n");
  Bindings bindings;
  bindings.steps = 1;
  bindings.batch = 1;
  bindings.values["b_hn"] = {{1}, {1}};
  bindings.values["zero"] = {{1}, {0}};
  ExpectNear(Interpret(graph, bindings).at("h").data, {.23105858});
}

}  // namespace
}  // namespace turbolstm
