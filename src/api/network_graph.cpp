#include "api/network_graph.h"

#include <algorithm>

#include "api/recurrent_options.h"
#include "base/error.h"
#include "graph/autodiff.h"
#include "graph/passes/lower_transforms.h"
#include "nn/recurrent.h"

namespace turbolstm {
namespace {

constexpr std::string_view kLayers = "rnn";
constexpr std::string_view kPrefix = "rnn.";

std::string Short(const std::string& name) {
  return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
}

ValueRows RowsOf(Domain domain) {
  switch (domain) {
    case Domain::kStatic:
      return ValueRows::kNone;
    case Domain::kBatch:
      return ValueRows::kBatch;
    case Domain::kStep:
      return ValueRows::kStep;
  }
  Fail("[network] unknown domain {}", static_cast<int>(domain));
}

// Adds the backward pass: "d.<output>" to "d.<name>".
void AddGradients(std::span<const std::string> gradients_of,
                  std::span<const std::string> cotangents_of, std::span<const ValueInfo> outputs,
                  NetworkGraph* network) {
  Graph* const graph = &network->graph;
  std::vector<Cotangent> cotangents;
  for (const std::string& name : cotangents_of) {
    const auto output = std::ranges::find(outputs, name, &ValueInfo::name);
    TL_CHECK(output != outputs.end(), "[network] there is no output '{}' to give a gradient of",
             name);
    const NodeId id = graph->FindOutput(NameInGraph(name));
    Node input;
    input.op = Op::kInput;
    input.domain = graph->node(id).domain;
    input.features = graph->node(id).features;
    input.name = "d." + name;
    cotangents.push_back({id, graph->Add(std::move(input))});
    network->late_inputs.push_back("d." + name);
  }
  std::vector<NodeId> wrt;
  for (const std::string& name : gradients_of) {
    wrt.push_back(graph->Find(NameInGraph(name)));
    TL_CHECK(wrt.back() != kNoNode, "[network] there is no '{}' to differentiate by", name);
    const Op op = graph->node(wrt.back()).op;
    TL_CHECK(op == Op::kInput || op == Op::kParameter,
             "[network] '{}' is neither input nor parameter to differentiate by", name);
  }
  const std::vector<NodeId> gradients = Gradients(graph, cotangents, wrt);
  for (size_t i = 0; i < wrt.size(); ++i) {
    if (gradients[i] != kNoNode) graph->AddOutput("d." + gradients_of[i], gradients[i]);
  }
}

}  // namespace

NetworkGraph BuildNetwork(const RecurrentSpec& spec, std::span<const std::string> gradients,
                          std::span<const std::string> cotangents) {
  TL_CHECK(gradients.empty() == cotangents.empty(),
           "[network] got {} names to differentiate by and {} gradients to start from, wants both "
           "or none",
           gradients.size(), cotangents.size());
  TL_CHECK(spec.input > 0, "[network] got the input size {}, wants > 0", spec.input);
  Model model;
  const Value x = model.builder().Input("x", Domain::kStep, {spec.input});
  const RecurrentResult result = Recurrent(model, std::string(kLayers), x, OptionsOf(spec));
  model.graph().AddOutput("y", result.output.id());
  AddFinalStates(model, result);
  NetworkGraph network;
  std::vector<ValueInfo> outputs{{"y", ValueRows::kStep, {result.output.features()}}};
  for (const RecurrentState& state : result.states) {
    const std::string initial = Short(state.input);
    network.states.push_back({initial.substr(0, initial.find('_')), initial, Short(state.output),
                              state.final.features()});
    outputs.push_back({Short(state.output), ValueRows::kBatch, {state.final.features()}});
  }
  network.specs = model.parameters();
  for (ParameterSpec& parameter : network.specs) {
    parameter.name = Short(parameter.name);
    network.parameters.push_back({parameter.name, ValueRows::kNone, parameter.shape});
  }
  network.graph = model.graph();
  if (!gradients.empty()) {
    LowerTransforms(&network.graph);
    AddGradients(gradients, cotangents, outputs, &network);
  }
  return network;
}

std::string NameInGraph(const std::string& name) {
  const bool plain = name == "x" || name == "y" || name.starts_with("d.");
  return plain ? name : std::string(kPrefix) + name;
}

ValueInfo InfoOf(const NamedView& value) {
  return {Short(value.name), RowsOf(value.domain), value.features};
}

}  // namespace turbolstm
