#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "nn/classifier.h"
#include "plan/lowered.h"
#include "train/config.h"

namespace turbolstm {

// The recurrent layers that a config describes. Throws Error listing the cells when there is none
// of that name, and for a projection that the cell does not have or lacks.
RecurrentOptions RecurrentOptionsOf(const ModelConfig& config);

// A classifier of texts (see BuildClassifier). The config's dropout acts on the embedding, between
// layers and before the head.
ClassifierOptions ClassifierOptionsOf(const ModelConfig& config, int64_t vocabulary,
                                      int64_t classes);
std::unique_ptr<Model> MakeClassifier(const ModelConfig& config, int64_t vocabulary,
                                      int64_t classes);

// The model's graph with the gradient of output "loss" with respect to every parameter, as output
// GradientName(parameter); a parameter that the loss does not depend on has none. kScaled: all of
// them are times a further parameter kLossScale [1], so that small ones survive in fp16.
enum class LossScaling : uint8_t { kNone, kScaled };
inline constexpr std::string_view kLossScale = "loss_scale";
Graph WithLossGradients(const Model& model, LossScaling scaling = LossScaling::kNone);
std::string GradientName(const std::string& parameter);  // "d.<parameter>"

}  // namespace turbolstm
