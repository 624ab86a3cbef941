#include "cli/planned_network.h"

#include <charconv>

#include "base/error.h"
#include "graph/autodiff.h"
#include "graph/passes/lower_transforms.h"
#include "graph/side_by_side.h"
#include "train/model_factory.h"

namespace turbolstm::cli {
namespace {

constexpr int64_t kClasses = 2;

std::string Describe(const ModelConfig& model, bool inference) {
  return fmt::format("{}, {} layer{} of {} units{}, {}, {}", model.cell, model.layers,
                     model.layers == 1 ? "" : "s", model.hidden,
                     model.bidirectional ? " in both directions" : "",
                     inference ? "forward" : "training step", model.precision);
}

PlannedNetwork FromConfig(const NetworkRequest& request) {
  const Config config = LoadConfig(request.config, request.overrides);
  const auto model = MakeClassifier(config.model, config.data.vocabulary, kClasses);
  return {request.inference ? model->graph() : WithLossGradients(*model),
          "classifier: " + Describe(config.model, request.inference), config.model.precision,
          config.train.recompute};
}

// The layers, with a cotangent of ones at every step.
PlannedNetwork LayersAlone(const NetworkRequest& request) {
  ModelConfig config;
  config.cell = request.cell;
  config.embedding = request.input;
  config.hidden = request.hidden;
  config.projection = request.projection;
  config.layers = request.layers;
  config.bidirectional = request.bidirectional;
  config.precision = request.precision;
  Model model;
  const Value x = model.builder().Input("x", Domain::kStep, {request.input});
  const RecurrentResult result = Recurrent(model, request.cell, x, RecurrentOptionsOf(config));
  model.graph().AddOutput("y", result.output.id());
  Graph graph = model.graph();
  LowerTransforms(&graph);
  if (!request.inference) {
    std::vector<NodeId> inputs;
    std::vector<std::string> names;
    for (const ParameterSpec& spec : model.parameters()) {
      inputs.push_back(graph.Find(spec.name));
      names.push_back(spec.name);
    }
    inputs.push_back(graph.Find("x"));
    names.emplace_back("x");
    const std::vector<NodeId> gradients =
        Gradients(&graph, {{graph.FindOutput("y"), Ones(&graph)}}, inputs);
    for (size_t i = 0; i < names.size(); ++i) {
      if (gradients[i] != kNoNode) graph.AddOutput(GradientName(names[i]), gradients[i]);
    }
  }
  return {std::move(graph), Describe(config, request.inference), config.precision, false};
}

// "gru:96:2" in place of the cell, its units and layers.
NetworkRequest SecondOf(NetworkRequest request) {
  const std::string text = request.beside;
  const auto number = [&](std::string_view part) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    TL_CHECK(error == std::errc() && end == part.data() + part.size() && value >= 1 &&
                 value <= int64_t{1} << 20,
             "[plan] --beside is '{}', wants cell, cell:hidden or cell:hidden:layers", text);
    return value;
  };
  const size_t first = text.find(':');
  request.cell = text.substr(0, first);
  if (first == std::string::npos) return request;
  const size_t second = text.find(':', first + 1);
  request.hidden = number(std::string_view(text).substr(first + 1, second - first - 1));
  if (second != std::string::npos)
    request.layers = number(std::string_view(text).substr(second + 1));
  return request;
}

PlannedNetwork TwoNetworks(const NetworkRequest& request) {
  PlannedNetwork first = LayersAlone(request);
  const PlannedNetwork second = LayersAlone(SecondOf(request));
  first.graph = SideBySide(first.graph, second.graph);
  first.description += "; beside it " + second.description;
  return first;
}

}  // namespace

PlannedNetwork BuildNetwork(const NetworkRequest& request) {
  TL_CHECK(request.config.empty() != request.cell.empty(),
           "[plan] got {} a config {} --cell, wants one of them",
           request.config.empty() ? "neither" : "both", request.config.empty() ? "nor" : "and");
  TL_CHECK(request.overrides.empty() || !request.config.empty(),
           "[plan] '{}' overrides a config, but --cell was given", request.overrides.front());
  if (!request.config.empty()) return FromConfig(request);
  return request.beside.empty() ? LayersAlone(request) : TwoNetworks(request);
}

}  // namespace turbolstm::cli
