#include "train/model_factory.h"

#include "base/error.h"
#include "graph/autodiff.h"
#include "graph/builder.h"
#include "graph/passes/lower_transforms.h"

namespace turbolstm {

RecurrentOptions RecurrentOptionsOf(const ModelConfig& config) {
  const Cell& cell = FindCell(config.cell);
  TL_CHECK(cell.projects == (config.projection > 0),
           "[config] model.projection is {}, cell '{}' wants {}", config.projection, config.cell,
           cell.projects ? "at least 1" : "0, for it projects nothing");
  RecurrentOptions options;
  options.cell = config.cell;
  options.size.input = config.embedding;
  options.size.hidden = config.hidden;
  options.size.projection = config.projection;
  options.layers = config.layers;
  options.bidirectional = config.bidirectional;
  options.dropout = config.layers > 1 ? config.dropout : 0;
  return options;
}

ClassifierOptions ClassifierOptionsOf(const ModelConfig& config, int64_t vocabulary,
                                      int64_t classes) {
  ClassifierOptions options;
  options.vocabulary = vocabulary;
  options.embedding = config.embedding;
  options.classes = classes;
  options.recurrent = RecurrentOptionsOf(config);
  options.pooling = PoolingNamed(config.pooling);
  options.embedding_dropout = config.dropout;
  options.dropout = config.dropout;
  return options;
}

std::unique_ptr<Model> MakeClassifier(const ModelConfig& config, int64_t vocabulary,
                                      int64_t classes) {
  auto model = std::make_unique<Model>();
  BuildClassifier(*model, ClassifierOptionsOf(config, vocabulary, classes));
  return model;
}

std::string GradientName(const std::string& parameter) {
  return "d." + parameter;
}

Graph WithLossGradients(const Model& model, LossScaling scaling) {
  Graph graph = model.graph();
  LowerTransforms(&graph);
  std::vector<NodeId> parameters;
  for (const ParameterSpec& spec : model.parameters()) parameters.push_back(graph.Find(spec.name));
  const NodeId cotangent = scaling == LossScaling::kScaled
                               ? Builder(&graph).Parameter(std::string(kLossScale), {1}).id()
                               : Ones(&graph);
  const std::vector<NodeId> gradients =
      Gradients(&graph, {{graph.FindOutput("loss"), cotangent}}, parameters);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i] == kNoNode) continue;
    graph.AddOutput(GradientName(model.parameters()[i].name), gradients[i]);
  }
  return graph;
}

}  // namespace turbolstm
