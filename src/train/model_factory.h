#pragma once

#include <memory>

#include "nn/classifier.h"
#include "plan/lowered.h"
#include "train/config.h"

namespace turbolstm {

// The recurrent layers that a config describes. Throws Error listing the cells when there is none
// of that name, and for a projection that the cell does not have or lacks.
RecurrentOptions RecurrentOptionsOf(const ModelConfig& config);

// A classifier of texts (see BuildClassifier). The config's dropout acts on the embedding, between
// layers and before the head.
std::unique_ptr<Model> MakeClassifier(const ModelConfig& config, int64_t vocabulary,
                                      int64_t classes);

// The model's graph with the gradient of output "loss" with respect to every parameter, as output
// GradientName(parameter); a parameter that the loss does not depend on has none.
Graph WithLossGradients(const Model& model);
std::string GradientName(const std::string& parameter);  // "d.<parameter>"

}  // namespace turbolstm
