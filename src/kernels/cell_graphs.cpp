#include "kernels/cell_graphs.h"

#include <string>

#include "graph/autodiff.h"
#include "nn/recurrent.h"

namespace turbolstm {
namespace {

Graph CellGraph(const Cell& cell, int64_t layers, bool training) {
  Model model;
  const Value x = model.builder().Input("x", Domain::kStep, {8});
  RecurrentOptions options;
  options.cell = std::string(cell.name);
  options.size.input = 8;
  options.size.hidden = 16;
  options.size.projection = cell.projects ? 4 : 0;
  options.size.heads = 2;
  options.layers = layers;
  const Value y = Recurrent(model, "rnn", x, options).output;
  model.graph().AddOutput("y", y.id());
  if (!training) return model.graph();
  const Value dy = model.builder().Input("dy", Domain::kStep, {y.features()});
  std::vector<NodeId> wrt;
  for (const ParameterSpec& spec : model.parameters()) {
    wrt.push_back(model.graph().Find(spec.name));
  }
  const std::vector<NodeId> gradients = Gradients(&model.graph(), {{y.id(), dy.id()}}, wrt);
  for (size_t i = 0; i < wrt.size(); ++i) {
    model.graph().AddOutput("gradient." + model.parameters()[i].name, gradients[i]);
  }
  return model.graph();
}

}  // namespace

std::vector<Graph> CellGraphs(const Cell& cell) {
  std::vector<Graph> graphs;
  for (const int64_t layers : {1, 2}) {
    for (const bool training : {false, true}) graphs.push_back(CellGraph(cell, layers, training));
  }
  return graphs;
}

}  // namespace turbolstm
