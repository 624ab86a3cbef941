#pragma once

#include "nn/recurrent.h"

namespace turbolstm {

enum class Pooling : uint8_t { kLast, kMean, kMax };
// "last", "mean", "max"; throws on any other name.
Pooling PoolingNamed(std::string_view name);

// embedding -> recurrent layers -> pooling over time -> dropout -> linear -> cross-entropy.
struct ClassifierOptions {
  int64_t vocabulary = 0;
  int64_t embedding = 0;
  int64_t classes = 0;
  RecurrentOptions recurrent;  // size.input is set from embedding
  Pooling pooling = Pooling::kLast;
  double embedding_dropout = 0;
  double dropout = 0;
};

// Inputs "tokens" (Step index) and "label" (Batch index); outputs "logits" Batch [classes] and
// "loss" Static [1]. Parameters embedding.weight, <cell>.weight_ih_l0, .., head.weight, head.bias.
void BuildClassifier(Model& model, const ClassifierOptions& options);

}  // namespace turbolstm
