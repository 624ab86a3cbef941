// What Recurrent builds and Gradients adds, run by the interpreter and by executables, against
// PyTorch's numbers. make_pytorch_golden.py documents the file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "graph/analysis.h"
#include "graph/autodiff.h"
#include "graph/interpreter.h"
#include "io/safetensors.h"
#include "nn/recurrent.h"
#include "plan/comparison.h"

namespace turbolstm {
namespace {

// Both sides are float64; only the order of sums differs.
constexpr double kTolerance = 1e-12;
// An executable computes in fp32; relative to the largest magnitude of each tensor, at least 1.
constexpr double kExecutedTolerance = 1e-6;

const SafetensorsFile& Golden() {
  static const SafetensorsFile file =
      ReadSafetensors(std::string(TL_GOLDEN_DIR) + "/pytorch_rnn.safetensors");
  return file;
}

// The cases whose option `key` is one of these.
std::vector<nlohmann::json> CasesWith(const char* key, const std::set<std::string>& values) {
  std::vector<nlohmann::json> cases;
  const nlohmann::json index = nlohmann::json::parse(Golden().metadata.at("index"));
  for (const nlohmann::json& c : index["cases"]) {
    if (values.contains(c[key].get<std::string>())) cases.push_back(c);
  }
  return cases;
}

template <typename T>
std::vector<T> DataOf(const NamedTensor& tensor) {
  std::vector<T> data(tensor.bytes.size() / sizeof(T));
  std::memcpy(data.data(), tensor.bytes.data(), tensor.bytes.size());
  return data;
}

Array ArrayOf(const NamedTensor& tensor) {
  TL_CHECK(tensor.dtype == DType::kFloat64, "[golden] {} is {}", tensor.name, Name(tensor.dtype));
  return {tensor.shape, DataOf<double>(tensor)};
}

// Row `index` of the first axis.
Array RowOf(const Array& array, size_t index) {
  const size_t n = array.data.size() / static_cast<size_t>(array.shape[0]);
  const auto begin = array.data.begin() + static_cast<ptrdiff_t>(index * n);
  return {{array.shape.begin() + 1, array.shape.end()}, {begin, begin + static_cast<ptrdiff_t>(n)}};
}

void ExpectNear(const Array& got, const Array& wanted, const std::string& what) {
  ASSERT_EQ(got.shape, wanted.shape) << what;
  for (size_t i = 0; i < got.data.size(); ++i) {
    const double allowed = kTolerance * std::max(1.0, std::abs(wanted.data[i]));
    ASSERT_NEAR(got.data[i], wanted.data[i], allowed) << what << " at " << i;
  }
}

constexpr const char* kName = "rnn";

// A case with everything that it wants: outputs, final states and gradients, by output's name.
struct Problem {
  Model model;
  Bindings bindings;
  std::map<std::string, Array> wanted;
};

class PyTorchCase : public testing::TestWithParam<nlohmann::json> {
 protected:
  PyTorchCase() : case_(GetParam()), prefix_(case_["name"].get<std::string>() + "/") {}

  Array Golden(const std::string& name) const {
    return ArrayOf(turbolstm::Golden().At(prefix_ + name));
  }

  RecurrentOptions Options(InitialState initial) const {
    RecurrentOptions options;
    options.cell = case_["cell"];
    options.size.projection = case_["P"];
    if (options.size.projection > 0) options.cell += "_projection";
    options.size.input = case_["I"];
    options.size.hidden = case_["H"];
    options.size.bias = case_["bias"];
    options.layers = case_["layers"];
    options.bidirectional = case_["bidirectional"];
    options.initial = initial;
    return options;
  }

  Bindings BindingsOf(const Model& model) const {
    Bindings bindings;
    bindings.steps = case_["T"];
    bindings.batch = case_["B"];
    if (const NamedTensor* lengths = turbolstm::Golden().Find(prefix_ + "lengths")) {
      bindings.lengths = DataOf<int64_t>(*lengths);
    }
    bindings.values["x"] = Golden("x");
    for (const ParameterSpec& spec : model.parameters()) {
      const std::string name = spec.name.substr(std::strlen(kName) + 1);
      bindings.values[spec.name] = Golden("param/" + name);
    }
    return bindings;
  }

  void Pose(Problem* problem) const;

  // "h_0", "c_n": which tensor holds this layer's state.
  static std::string TensorOf(const std::string& state_name) {
    return state_name.substr(std::strlen(kName) + 1, 3);
  }

  nlohmann::json case_;
  std::string prefix_;
};

void PyTorchCase::Pose(Problem* problem) const {
  Model& model = problem->model;
  Builder& b = model.builder();
  const Value x = b.Input("x", Domain::kStep, {case_["I"]});
  const RecurrentResult result = Recurrent(model, kName, x, Options(InitialState::kGiven));
  Bindings& bindings = problem->bindings;
  bindings = BindingsOf(model);

  const Value upstream = b.Input("upstream", Domain::kStep, {result.output.features()});
  bindings.values["upstream"] = Golden("upstream/y");
  std::vector<Cotangent> cotangents = {{result.output.id(), upstream.id()}};
  model.graph().AddOutput("y", result.output.id());
  std::map<std::string, Array>& wanted = problem->wanted;
  wanted["y"] = Golden("y");
  std::vector<std::string> sources = {"x"};
  wanted["grad/x"] = Golden("grad/x");

  std::map<std::string, size_t> rows;  // of h_0 and c_0 that are dealt out already
  for (const RecurrentState& state : result.states) {
    const std::string last = TensorOf(state.output);
    const std::string first = TensorOf(state.input);
    const size_t row = rows[first]++;
    const Array gradient = RowOf(Golden("upstream/" + last), row);
    const Value given = b.Input("upstream." + state.output, Domain::kBatch, {gradient.shape[1]});
    bindings.values["upstream." + state.output] = gradient;
    cotangents.push_back({state.final.id(), given.id()});
    model.graph().AddOutput(state.output, state.final.id());
    wanted[state.output] = RowOf(Golden(last), row);
    bindings.values[state.input] =
        case_["initial"] == "random"
            ? RowOf(Golden(first), row)
            : Array{gradient.shape, std::vector<double>(gradient.data.size(), 0.0)};
    sources.push_back(state.input);
    wanted["grad/" + state.input] = RowOf(Golden("grad/" + first), row);
  }
  for (const ParameterSpec& spec : model.parameters()) {
    sources.push_back(spec.name);
    wanted["grad/" + spec.name] = Golden("grad/" + spec.name.substr(std::strlen(kName) + 1));
  }

  std::vector<NodeId> wrt;
  for (const std::string& name : sources) wrt.push_back(model.graph().Find(name));
  const std::vector<NodeId> gradients = Gradients(&model.graph(), cotangents, wrt);
  for (size_t i = 0; i < sources.size(); ++i) {
    ASSERT_NE(gradients[i], kNoNode) << sources[i];
    model.graph().AddOutput("grad/" + sources[i], gradients[i]);
  }
}

TEST_P(PyTorchCase, InterpretedOutputsStatesAndGradients) {
  Problem problem;
  Pose(&problem);
  Analyse(problem.model.graph());
  const std::map<std::string, Array> got = Interpret(problem.model.graph(), problem.bindings);
  for (const auto& [name, array] : problem.wanted) ExpectNear(got.at(name), array, name);
}

TEST_P(PyTorchCase, ExecutedOutputsStatesAndGradients) {
  Problem problem;
  Pose(&problem);
  const Graph& graph = problem.model.graph();
  for (const int streams : {1, 2}) {
    SCOPED_TRACE(streams);
    const ExecutableOptions options{.streams = streams, .verify = true};
    Choose(CellKernels::kInterpreted, graph);
    const Outputs got = Execute(graph, problem.bindings, options);
    for (const auto& [name, array] : problem.wanted) {
      EXPECT_EQ(Difference(name, array.data, got.at(name), kExecutedTolerance), "");
    }
    Choose(CellKernels::kCompiled, graph);
    EXPECT_EQ(Execute(graph, problem.bindings, options), got) << "with compiled kernels";
  }
}

class PyTorchZeroCase : public PyTorchCase {};

TEST_P(PyTorchZeroCase, NoInitialStateMeansZeros) {
  Model model;
  const Value x = model.builder().Input("x", Domain::kStep, {case_["I"]});
  const RecurrentResult result = Recurrent(model, kName, x, Options(InitialState::kZero));
  model.graph().AddOutput("y", result.output.id());
  const Array y = Interpret(model.graph(), BindingsOf(model)).at("y");
  ExpectNear(y, Golden("y"), "y");
  const Outputs executed = Execute(model.graph(), BindingsOf(model), {.streams = 2});
  EXPECT_EQ(Difference("y", Golden("y").data, executed.at("y"), kExecutedTolerance), "");
}

std::string NameOf(const testing::TestParamInfo<nlohmann::json>& info) {
  return info.param["name"];
}

INSTANTIATE_TEST_SUITE_P(All, PyTorchCase,
                         testing::ValuesIn(CasesWith("initial", {"zero", "random"})), NameOf);
INSTANTIATE_TEST_SUITE_P(All, PyTorchZeroCase, testing::ValuesIn(CasesWith("initial", {"zero"})),
                         NameOf);

}  // namespace
}  // namespace turbolstm
