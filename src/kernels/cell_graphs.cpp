#include "kernels/cell_graphs.h"

#include <string>

#include "graph/autodiff.h"
#include "graph/passes/lower_transforms.h"
#include "nn/classifier.h"
#include "nn/recurrent.h"

namespace turbolstm {
namespace {

void AddGradients(const Model& model, const Cotangent& from, Graph* graph) {
  std::vector<NodeId> wrt;
  for (const ParameterSpec& spec : model.parameters()) wrt.push_back(graph->Find(spec.name));
  const std::vector<NodeId> gradients = Gradients(graph, {from}, wrt);
  for (size_t i = 0; i < wrt.size(); ++i) {
    if (gradients[i] == kNoNode) continue;
    graph->AddOutput("gradient." + model.parameters()[i].name, gradients[i]);
  }
}

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
  AddGradients(model, {y.id(), dy.id()}, &model.graph());
  return model.graph();
}

Graph ClassifierGraph(const Cell& cell, int64_t layers, Pooling pooling, bool training) {
  Model model;
  ClassifierOptions options;
  options.vocabulary = 32;
  options.embedding = 8;
  options.classes = 5;
  options.recurrent.cell = std::string(cell.name);
  options.recurrent.size.hidden = 16;
  options.recurrent.size.projection = cell.projects ? 4 : 0;
  options.recurrent.size.heads = 2;
  options.recurrent.layers = layers;
  options.pooling = pooling;
  options.embedding_dropout = training ? 0.5 : 0;
  options.recurrent.dropout = training && layers > 1 ? 0.5 : 0;
  options.dropout = training ? 0.5 : 0;
  BuildClassifier(model, options);
  Graph graph = model.graph();
  if (training) {
    LowerTransforms(&graph);
    AddGradients(model, {graph.FindOutput("loss"), Ones(&graph)}, &graph);
  }
  return graph;
}

}  // namespace

std::vector<Graph> CellGraphs(const Cell& cell) {
  std::vector<Graph> graphs;
  for (const int64_t layers : {1, 2}) {
    for (const bool training : {false, true}) graphs.push_back(CellGraph(cell, layers, training));
  }
  return graphs;
}

std::vector<Graph> ClassifierGraphs(const Cell& cell) {
  std::vector<Graph> graphs;
  for (const int64_t layers : {1, 2}) {
    for (const Pooling pooling : {Pooling::kLast, Pooling::kMean, Pooling::kMax}) {
      for (const bool training : {false, true}) {
        graphs.push_back(ClassifierGraph(cell, layers, pooling, training));
      }
    }
  }
  return graphs;
}

}  // namespace turbolstm
