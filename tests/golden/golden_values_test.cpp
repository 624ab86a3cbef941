// The interpreter and executables against small known answers of LSTM and GRU;
// check_golden_values.py documents the file and recomputes it.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "graph/interpreter.h"
#include "nn/recurrent.h"
#include "plan/comparison.h"

namespace turbolstm {
namespace {

// The file's numbers are rounded to twelve digits.
constexpr double kTolerance = 2e-12;
// Of executables, relative to the largest magnitude of each tensor, at least 1.
constexpr double kFloat32Error = 1e-6;
constexpr double kBFloat16Error = 2e-2;

std::vector<nlohmann::json> Cases() {
  std::ifstream file(std::string(TL_GOLDEN_DIR) + "/golden_values.json");
  return nlohmann::json::parse(file)["cases"];
}

// A single value fills the shape.
Array ArrayOf(const nlohmann::json& tensor) {
  Array array{tensor["shape"], tensor["values"]};
  const auto count = static_cast<size_t>(ElementCount(array.shape));
  if (array.data.size() == 1) array.data.resize(count, array.data[0]);
  return array;
}

// Row `index` of the first axis, in another shape of equal size.
Array RowOf(const Array& array, size_t index, std::vector<int64_t> shape) {
  const auto n = static_cast<ptrdiff_t>(ElementCount(shape));
  const auto begin = array.data.begin() + static_cast<ptrdiff_t>(index) * n;
  return {std::move(shape), {begin, begin + n}};
}

class GoldenCase : public testing::TestWithParam<nlohmann::json> {
 protected:
  GoldenCase() : case_(GetParam()) { Pose(); }

  void Pose();

  RecurrentOptions Options() const {
    RecurrentOptions options;
    options.cell = case_.contains("peephole") ? "peephole_lstm" : case_["cell"];
    options.size.input = case_["I"];
    options.size.hidden = case_["H"];
    options.size.bias = case_.contains("bias_ih");
    if (case_.contains("clip")) options.size.clip = case_["clip"].get<double>();
    options.size.coupled_gates = case_.value("input_forget", false);
    options.initial = InitialState::kGiven;
    options.bidirectional = case_["directions"].size() == 2;
    if (case_["directions"] == nlohmann::json{"reverse"}) {
      options.directions = {Direction::kReverse};
    }
    return options;
  }

  // What a parameter is called in the file.
  static std::string KeyOf(const std::string& name) {
    const std::string key = name.substr(4, name.find("_l0") - 4);
    return key == "weight_ph" ? "peephole" : key;
  }

  Array Filled(const std::string& key, size_t direction, std::vector<int64_t> shape) const {
    if (!case_.contains(key)) {
      const auto count = static_cast<size_t>(ElementCount(shape));
      return {std::move(shape), std::vector<double>(count, 0.0)};
    }
    return RowOf(ArrayOf(case_[key]), direction, std::move(shape));
  }

  static size_t DirectionOf(const std::string& name) { return name.ends_with("_reverse") ? 1 : 0; }

  nlohmann::json case_;
  Model model_;
  Bindings bindings_;
  std::map<std::string, Array> wanted_;  // by output
};

void ExpectNear(const Array& got, const Array& wanted, const std::string& what) {
  ASSERT_EQ(got.data.size(), wanted.data.size()) << what;
  for (size_t i = 0; i < got.data.size(); ++i) {
    EXPECT_NEAR(got.data[i], wanted.data[i], kTolerance) << what << " at " << i;
  }
}

void GoldenCase::Pose() {
  const Value x = model_.builder().Input("x", Domain::kStep, {case_["I"]});
  const RecurrentResult result = Recurrent(model_, "rnn", x, Options());
  model_.graph().AddOutput("y", result.output.id());
  AddFinalStates(model_, result);

  bindings_.steps = case_["T"];
  bindings_.batch = case_["B"];
  if (case_.contains("lengths")) bindings_.lengths = case_["lengths"].get<std::vector<int64_t>>();
  bindings_.values["x"] = ArrayOf(case_["x"]);
  for (const ParameterSpec& spec : model_.parameters()) {
    bindings_.values[spec.name] = Filled(KeyOf(spec.name), DirectionOf(spec.name), spec.shape);
  }
  const std::vector<int64_t> state_shape = {bindings_.batch, case_["H"]};
  const nlohmann::json& expected = case_["expected"];
  if (expected.contains("y")) wanted_["y"] = ArrayOf(expected["y"]);
  for (const RecurrentState& state : result.states) {
    bindings_.values[state.input] =
        Filled(KeyOf(state.input), DirectionOf(state.input), state_shape);
    const Array all = ArrayOf(expected[KeyOf(state.output)]);
    wanted_[state.output] = RowOf(all, DirectionOf(state.output), state_shape);
  }
}

TEST_P(GoldenCase, Interpreted) {
  const std::map<std::string, Array> got = Interpret(model_.graph(), bindings_);
  for (const auto& [name, array] : wanted_) ExpectNear(got.at(name), array, name);
}

// The carry of the long cases is exact in every precision: the cell's state is kept in fp32.
TEST_P(GoldenCase, Executed) {
  const bool exact = case_.value("tolerance", 1.0) == 0.0;
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    const double rounding = precision == Precision::kFloat32 ? kFloat32Error : kBFloat16Error;
    for (const int streams : {1, 2}) {
      SCOPED_TRACE(fmt::format("{}, {} streams", Name(precision), streams));
      const ExecutableOptions options{.precision = precision, .streams = streams, .verify = true};
      Choose(CellKernels::kInterpreted, model_.graph());
      const Outputs got = Execute(model_.graph(), bindings_, options);
      for (const auto& [name, array] : wanted_) {
        EXPECT_EQ(Difference(name, array.data, got.at(name), exact ? 0.0 : rounding), "");
      }
      Choose(CellKernels::kCompiled, model_.graph());
      EXPECT_EQ(Execute(model_.graph(), bindings_, options), got) << "with compiled kernels";
    }
  }
}

std::string NameOf(const testing::TestParamInfo<nlohmann::json>& info) {
  return info.param["name"];
}

INSTANTIATE_TEST_SUITE_P(All, GoldenCase, testing::ValuesIn(Cases()), NameOf);

}  // namespace
}  // namespace turbolstm
