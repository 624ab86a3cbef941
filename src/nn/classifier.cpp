#include "nn/classifier.h"

#include "base/error.h"
#include "nn/layers.h"
#include "nn/losses.h"

namespace turbolstm {
namespace {

Value Pooled(Pooling pooling, const RecurrentResult& recurrent) {
  switch (pooling) {
    case Pooling::kLast:
      return recurrent.last;
    case Pooling::kMean:
      return MeanOverTime(recurrent.output);
    case Pooling::kMax:
      return MaxOverTime(recurrent.output);
  }
  Fail("[classifier] unknown pooling {}", static_cast<int>(pooling));
}

}  // namespace

Pooling PoolingNamed(std::string_view name) {
  if (name == "last") return Pooling::kLast;
  if (name == "mean") return Pooling::kMean;
  if (name == "max") return Pooling::kMax;
  Fail("[classifier] there is no pooling '{}'; there are last, mean, max", name);
}

void BuildClassifier(Model& model, const ClassifierOptions& options) {
  TL_CHECK(options.vocabulary > 0 && options.embedding > 0 && options.classes > 0,
           "[classifier] got vocabulary {}, embedding {}, classes {}, wants all > 0",
           options.vocabulary, options.embedding, options.classes);
  Builder& b = model.builder();
  const Value tokens = b.IndexInput("tokens", Domain::kStep);
  const Value label = b.IndexInput("label", Domain::kBatch);
  const Value x =
      Dropout(Embedding(model, "embedding", tokens, options.vocabulary, options.embedding,
                        Initializer::Normal(0.0, options.embedding_deviation)),
              options.embedding_dropout);
  RecurrentOptions recurrent = options.recurrent;
  recurrent.size.input = options.embedding;
  const RecurrentResult result = Recurrent(model, recurrent.cell, x, recurrent);
  const Value pooled = Dropout(Pooled(options.pooling, result), options.dropout);
  const Value logits = Linear(model, "head", pooled, options.classes);
  model.graph().AddOutput("logits", logits.id());
  model.graph().AddOutput("loss", CrossEntropyLoss(logits, label).id());
}

}  // namespace turbolstm
