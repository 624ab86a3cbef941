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
  // Of the embedding's initial weights. PyTorch draws them ten times wider, which takes words that
  // are seen only a few times many epochs to unlearn.
  double embedding_deviation = 0.1;
  double embedding_dropout = 0;
  double dropout = 0;
};

// Inputs "tokens" (Step index) and "label" (Batch index); outputs "logits" Batch [classes] and
// "loss" Static [1]. Parameters embedding.weight, <cell>.weight_ih_l0, .., head.weight, head.bias.
void BuildClassifier(Model& model, const ClassifierOptions& options);

}  // namespace turbolstm
