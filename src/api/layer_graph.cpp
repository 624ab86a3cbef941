#include "api/layer_graph.h"

#include "graph/autodiff.h"
#include "graph/passes/lower_transforms.h"

namespace turbolstm {

Graph LayerGraph(const RecurrentOptions& options, bool training) {
  Model model;
  const Value x = model.builder().Input("x", Domain::kStep, {options.size.input});
  const RecurrentResult result = Recurrent(model, options.cell, x, options);
  model.graph().AddOutput("y", result.output.id());
  Graph graph = model.graph();
  LowerTransforms(&graph);
  if (!training) return graph;
  std::vector<std::string> names = {"x"};
  for (const ParameterSpec& spec : model.parameters()) names.push_back(spec.name);
  std::vector<NodeId> inputs;
  for (const std::string& name : names) inputs.push_back(graph.Find(name));
  const std::vector<NodeId> gradients =
      Gradients(&graph, {{graph.FindOutput("y"), Ones(&graph)}}, inputs);
  for (size_t i = 0; i < names.size(); ++i) {
    if (gradients[i] != kNoNode) graph.AddOutput("d." + names[i], gradients[i]);
  }
  return graph;
}

}  // namespace turbolstm
