// Cells that no other library could judge, against scalar loops written from the papers' equations.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/error.h"
#include "cells/cell.h"
#include "graph/interpreter.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

constexpr double kTolerance = 1e-12;
constexpr int64_t kI = 4;
constexpr int64_t kH = 6;
constexpr int64_t kHeads = 2;
constexpr int32_t kDelay = 3;

using Row = std::vector<double>;
// Values of each state, oldest first.
using Past = std::map<std::string, std::vector<Row>>;

double Sigmoid1(double v) {
  return 1 / (1 + std::exp(-v));
}

// Parameters, read by row.
class Weights {
 public:
  explicit Weights(const Bindings& bindings) : bindings_(bindings) {}

  double at(const std::string& name, int64_t i) const {
    return bindings_.values.at(name).data[static_cast<size_t>(i)];
  }
  // Row `row` of a matrix times v.
  double Dot(const std::string& name, int64_t row, const Row& v) const {
    double sum = 0;
    for (size_t k = 0; k < v.size(); ++k) {
      sum += at(name, row * static_cast<int64_t>(v.size()) + static_cast<int64_t>(k)) * v[k];
    }
    return sum;
  }
  double Input(int64_t row, const Row& x) const {
    return Dot("weight_ih", row, x) + at("bias_ih", row);
  }
  double Hidden(int64_t row, const Row& h) const {
    return Dot("weight_hh", row, h) + at("bias_hh", row);
  }

 private:
  const Bindings& bindings_;
};

// The states after a step; states(t-1) stand at the back of the past.
using Step = std::map<std::string, Row> (*)(const Weights& w, const Row& x, const Past& past);

size_t At(int64_t j) {
  return static_cast<size_t>(j);
}

std::map<std::string, Row> GruOriginalStep(const Weights& w, const Row& x, const Past& past) {
  const Row& h = past.at("h").back();
  Row reset(kH), next(kH);
  for (int64_t j = 0; j < kH; ++j)
    reset[At(j)] = Sigmoid1(w.Input(j, x) + w.Hidden(j, h)) * h[At(j)];
  for (int64_t j = 0; j < kH; ++j) {
    const double z = Sigmoid1(w.Input(kH + j, x) + w.Hidden(kH + j, h));
    const double n = std::tanh(w.Input(2 * kH + j, x) + w.Hidden(2 * kH + j, reset));
    next[At(j)] = (1 - z) * n + z * h[At(j)];
  }
  return {{"h", next}};
}

std::map<std::string, Row> PeepholeStep(const Weights& w, const Row& x, const Past& past) {
  const Row& h = past.at("h").back();
  const Row& c = past.at("c").back();
  Row next_h(kH), next_c(kH);
  for (int64_t j = 0; j < kH; ++j) {
    const auto a = [&](int64_t gate) {
      return w.Input(gate * kH + j, x) + w.Hidden(gate * kH + j, h);
    };
    const double i = Sigmoid1(a(0) + w.at("weight_ph", j) * c[At(j)]);
    const double f = Sigmoid1(a(1) + w.at("weight_ph", kH + j) * c[At(j)]);
    next_c[At(j)] = f * c[At(j)] + i * std::tanh(a(2));
    const double o = Sigmoid1(a(3) + w.at("weight_ph", 2 * kH + j) * next_c[At(j)]);
    next_h[At(j)] = o * std::tanh(next_c[At(j)]);
  }
  return {{"h", next_h}, {"c", next_c}};
}

Row Normalised(const Weights& w, const Row& v, const std::string& where) {
  double mean = 0, variance = 0;
  for (const double e : v) mean += e / static_cast<double>(v.size());
  for (const double e : v) variance += (e - mean) * (e - mean) / static_cast<double>(v.size());
  Row result;
  for (size_t k = 0; k < v.size(); ++k) {
    const auto i = static_cast<int64_t>(k);
    result.push_back((v[k] - mean) / std::sqrt(variance + 1e-5) * w.at("gain_" + where, i) +
                     w.at("bias_" + where, i));
  }
  return result;
}

std::map<std::string, Row> LayerNormStep(const Weights& w, const Row& x, const Past& past) {
  const Row& h = past.at("h").back();
  const Row& c = past.at("c").back();
  Row input, hidden;
  for (int64_t row = 0; row < 4 * kH; ++row) {
    input.push_back(w.Dot("weight_ih", row, x));
    hidden.push_back(w.Dot("weight_hh", row, h));
  }
  input = Normalised(w, input, "ih");
  hidden = Normalised(w, hidden, "hh");
  Row next_h(kH), next_c(kH);
  const auto a = [&](int64_t row) { return input[At(row)] + hidden[At(row)]; };
  for (int64_t j = 0; j < kH; ++j)
    next_c[At(j)] = Sigmoid1(a(kH + j)) * c[At(j)] + Sigmoid1(a(j)) * std::tanh(a(2 * kH + j));
  const Row scaled = Normalised(w, next_c, "c");
  for (int64_t j = 0; j < kH; ++j)
    next_h[At(j)] = Sigmoid1(a(3 * kH + j)) * std::tanh(scaled[At(j)]);
  return {{"h", next_h}, {"c", next_c}};
}

std::map<std::string, Row> MguStep(const Weights& w, const Row& x, const Past& past) {
  const Row& h = past.at("h").back();
  Row f(kH), kept(kH), next(kH);
  for (int64_t j = 0; j < kH; ++j) {
    f[At(j)] = Sigmoid1(w.Input(j, x) + w.Dot("weight_hh", j, h));
    kept[At(j)] = f[At(j)] * h[At(j)];
  }
  for (int64_t j = 0; j < kH; ++j) {
    const double n = std::tanh(w.Input(kH + j, x) + w.Dot("weight_hh", kH + j, kept));
    next[At(j)] = (1 - f[At(j)]) * h[At(j)] + f[At(j)] * n;
  }
  return {{"h", next}};
}

std::map<std::string, Row> IndRnnStep(const Weights& w, const Row& x, const Past& past) {
  const Row& h = past.at("h").back();
  Row next(kH);
  for (int64_t j = 0; j < kH; ++j)
    next[At(j)] = std::max(0.0, w.Input(j, x) + w.at("weight_hh", j) * h[At(j)]);
  return {{"h", next}};
}

std::map<std::string, Row> TrnnStep(const Weights& w, const Row& x, const Past& past) {
  const Row& h = past.at("h").back();
  Row next(kH);
  for (int64_t j = 0; j < kH; ++j) {
    const double f = Sigmoid1(w.Input(j, x));
    next[At(j)] = f * h[At(j)] + (1 - f) * w.Dot("weight_ih", kH + j, x);
  }
  return {{"h", next}};
}

std::map<std::string, Row> TauGruStep(const Weights& w, const Row& x, const Past& past) {
  const std::vector<Row>& all = past.at("h");
  const Row& h = all.back();
  const Row& far = all[all.size() - kDelay];
  Row next(kH);
  for (int64_t j = 0; j < kH; ++j) {
    const auto a = [&](int64_t gate) {
      return w.Input(gate * kH + j, x) + w.Dot("weight_hh", gate * kH + j, gate < 3 ? h : far);
    };
    const double g = Sigmoid1(a(1));
    const double candidate = std::tanh(a(0)) + Sigmoid1(a(2)) * std::tanh(a(3));
    next[At(j)] = (1 - g) * h[At(j)] + g * candidate;
  }
  return {{"h", next}};
}

std::map<std::string, Row> ScrnStep(const Weights& w, const Row& x, const Past& past) {
  const Row& h = past.at("h").back();
  const Row& q = past.at("q").back();
  Row next_q(kH), k(kH), next_h(kH);
  for (int64_t j = 0; j < kH; ++j) next_q[At(j)] = 0.05 * w.Input(j, x) + 0.95 * q[At(j)];
  for (int64_t j = 0; j < kH; ++j)
    k[At(j)] =
        Sigmoid1(w.Input(kH + j, x) + w.Dot("weight_hh", j, h) + w.Dot("weight_ch", j, next_q));
  for (int64_t j = 0; j < kH; ++j)
    next_h[At(j)] = std::tanh(w.Dot("weight_hh", kH + j, k) + w.Dot("weight_ch", kH + j, next_q));
  return {{"h", next_h}, {"q", next_q}};
}

std::map<std::string, Row> SlstmStep(const Weights& w, const Row& x, const Past& past) {
  constexpr int64_t kBlock = kH / kHeads;
  const Row& h = past.at("h").back();
  std::map<std::string, Row> next;
  for (int64_t j = 0; j < kH; ++j) {
    const int64_t head = j / kBlock;
    const auto a = [&](int64_t gate) {
      double sum = w.Input(gate * kH + j, x);
      for (int64_t k = 0; k < kBlock; ++k) {
        const int64_t row = (gate * kHeads + head) * kBlock + j % kBlock;
        sum += w.at("weight_hh", row * kBlock + k) * h[At(head * kBlock + k)];
      }
      return sum;
    };
    const double c = past.at("c").back()[At(j)];
    const double n = past.at("n").back()[At(j)];
    const double m = past.at("m").back()[At(j)];
    const double forget = m + std::log(Sigmoid1(a(1)));
    const double next_m = n == 0 ? a(0) : std::max(a(0), forget);
    const double i = std::exp(a(0) - next_m);
    const double f = std::min(std::exp(forget - next_m), 1.0);
    next["c"].push_back(f * c + i * std::tanh(a(2)));
    next["n"].push_back(f * n + i);
    next["m"].push_back(next_m);
    next["h"].push_back(Sigmoid1(a(3)) * next["c"].back() / next["n"].back());
  }
  return next;
}

struct Case {
  const char* cell;
  Step step;
};

const Case kCases[] = {
    {"gru_original", GruOriginalStep},
    {"peephole_lstm", PeepholeStep},
    {"layer_norm_lstm", LayerNormStep},
    {"mgu", MguStep},
    {"indrnn", IndRnnStep},
    {"trnn", TrnnStep},
    {"tau_gru", TauGruStep},
    {"scrn", ScrnStep},
    {"slstm", SlstmStep},
};

CellOptions Options() {
  CellOptions options;
  options.input = kI;
  options.hidden = kH;
  options.heads = kHeads;
  options.delay = kDelay;
  return options;
}

// Elements [begin, begin + n) of an array.
Row Part(const Array& array, int64_t begin, int64_t n) {
  const auto first = array.data.begin() + begin;
  return {first, first + n};
}

void ExpectNear(const Row& got, const Row& wanted, const std::string& what) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(got[i], wanted[i], kTolerance) << what << " at " << i;
  }
}

class CellReference : public testing::TestWithParam<Case> {
 protected:
  void Check(bool given_states, Direction direction) {
    Graph graph;
    Builder builder(&graph, direction);
    CellPlace place;
    place.initial = [&](const std::string& state, int64_t n) {
      return given_states ? builder.Input(state + "_0", Domain::kBatch, {n}) : Value();
    };
    const Value x = builder.Input("x", Domain::kStep, {kI});
    const CellResult result = FindCell(GetParam().cell).Build(&builder, x, Options(), place);
    graph.AddOutput("y", result.output.id());
    for (const CellState& state : result.states) graph.AddOutput(state.name, state.final.id());

    RandomBindingsOptions options;
    options.steps = 9;
    Bindings bindings = RandomBindings(graph, 3, options);
    bindings.lengths = {0, 9, 2};
    bindings.values["x"].data.assign(bindings.values["x"].data.size(), 0.0);
    for (size_t i = 0; i < bindings.values["x"].data.size(); ++i) {
      bindings.values["x"].data[i] = std::sin(0.7 * static_cast<double>(i));
    }
    const std::map<std::string, Array> got = Interpret(graph, bindings);
    for (int64_t b = 0; b < bindings.batch; ++b) CheckSequence(b, direction, bindings, result, got);
  }

  void CheckSequence(int64_t b, Direction direction, const Bindings& bindings,
                     const CellResult& result, const std::map<std::string, Array>& got) {
    const Weights weights(bindings);
    Past past;
    for (const CellState& state : result.states) {
      for (int64_t d = 0; d < state.delay; ++d) {
        past[state.name].push_back(
            state.initial.defined()
                ? Part(bindings.values.at(state.name + "_0"), (b * state.delay + d) * kH, kH)
                : Row(kH, 0.0));
      }
    }
    const int64_t length = bindings.lengths[static_cast<size_t>(b)];
    for (int64_t i = 0; i < length; ++i) {
      const int64_t t = direction == Direction::kForward ? i : length - 1 - i;
      const int64_t row = t * bindings.batch + b;
      const Row x = Part(bindings.values.at("x"), row * kI, kI);
      for (auto& [name, value] : GetParam().step(weights, x, past)) past[name].push_back(value);
      ExpectNear(Part(got.at("y"), row * kH, kH), past["h"].back(), fmt::format("y at step {}", t));
    }
    for (const CellState& state : result.states) {
      for (int64_t d = 0; d < state.delay; ++d) {
        const std::vector<Row>& all = past[state.name];
        ExpectNear(Part(got.at(state.name), (b * state.delay + d) * kH, kH),
                   all[all.size() - static_cast<size_t>(state.delay - d)],
                   fmt::format("final {} of sequence {}", state.name, b));
      }
    }
  }
};

TEST_P(CellReference, Forward) {
  Check(false, Direction::kForward);
  Check(true, Direction::kForward);
}

TEST_P(CellReference, Reverse) {
  Check(true, Direction::kReverse);
}

INSTANTIATE_TEST_SUITE_P(All, CellReference, testing::ValuesIn(kCases),
                         [](const testing::TestParamInfo<Case>& c) {
                           return std::string(c.param.cell);
                         });

// exp(-800) is 0 in float64: without the stabiliser's care for an empty past this is 0 / 0.
TEST(Slstm, SurvivesGatesFarFromZero) {
  for (const double gate : {-800.0, 800.0}) {
    CellOptions options;
    options.input = 1;
    options.hidden = 1;
    Graph graph;
    Builder builder(&graph);
    const Value x = builder.Input("x", Domain::kStep, {1});
    graph.AddOutput("y", FindCell("slstm").Build(&builder, x, options).output.id());
    RandomBindingsOptions sizes;
    sizes.ragged = false;
    Bindings bindings = RandomBindings(graph, 1, sizes);
    bindings.values["bias_ih"].data = {gate, 0, 0, 0};
    const Array got = Interpret(graph, bindings).at("y");
    for (const double y : got.data) {
      EXPECT_TRUE(std::isfinite(y)) << y;
      EXPECT_NE(y, 0.0);
    }
  }
}

}  // namespace
}  // namespace turbolstm
