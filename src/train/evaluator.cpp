#include "train/evaluator.h"

#include <algorithm>
#include <cmath>

#include "data/bucket_sampler.h"
#include "train/training_step.h"

namespace turbolstm {
namespace {

std::vector<double> Softmax(std::span<const float> logits) {
  const double most = *std::ranges::max_element(logits);
  std::vector<double> probabilities;
  double sum = 0;
  for (const float logit : logits) {
    probabilities.push_back(std::exp(double{logit} - most));
    sum += probabilities.back();
  }
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

}  // namespace

Evaluator::Evaluator(const Model& model, const Parameters& parameters, Precision precision,
                     const DeviceChoice& device, const std::shared_ptr<StreamPool>& pool)
    : execution_(MakeExecution(model.graph(), device, precision, pool)) {
  parameters.BindTo(execution_.get());
}

// visit(batch, logits [B, classes])
template <typename Visit>
void Evaluator::ForEachBatch(const EncodedTexts& texts, int64_t batch, Visit visit) {
  execution_->ParametersChanged();
  BucketSampler sampler(texts.Lengths(), {.batch = batch, .shuffle = false});
  while (!sampler.EpochDone()) {
    const Batch rows = MakeBatch(texts, sampler.Next());
    BindBatch(execution_.get(), rows);
    execution_->Run();
    visit(rows, execution_->Output("logits"));
  }
}

Evaluation Evaluator::Evaluate(const EncodedTexts& texts, int64_t batch) {
  Evaluation result;
  int64_t right = 0;
  double loss = 0;
  ForEachBatch(texts, batch, [&](const Batch& rows, std::span<const float> logits) {
    const size_t classes = logits.size() / static_cast<size_t>(rows.B);
    loss += double{execution_->Output("loss")[0]} * static_cast<double>(rows.B);
    for (size_t b = 0; b < rows.labels.size(); ++b) {
      const auto row = logits.subspan(b * classes, classes);
      if (std::ranges::max_element(row) - row.begin() == rows.labels[b]) ++right;
    }
    result.samples += rows.B;
  });
  if (result.samples == 0) return result;
  result.loss = loss / static_cast<double>(result.samples);
  result.accuracy = static_cast<double>(right) / static_cast<double>(result.samples);
  return result;
}

std::vector<std::vector<double>> Evaluator::Predict(const EncodedTexts& texts, int64_t batch) {
  std::vector<std::vector<double>> result(static_cast<size_t>(texts.size()));
  ForEachBatch(texts, batch, [&](const Batch& rows, std::span<const float> logits) {
    const size_t classes = logits.size() / static_cast<size_t>(rows.B);
    for (size_t b = 0; b < rows.sample_ids.size(); ++b) {
      result[static_cast<size_t>(rows.sample_ids[b])] =
          Softmax(logits.subspan(b * classes, classes));
    }
  });
  return result;
}

}  // namespace turbolstm
