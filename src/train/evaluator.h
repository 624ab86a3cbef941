#pragma once

#include <memory>
#include <vector>

#include "data/batch.h"
#include "data/encoded_texts.h"
#include "nn/model.h"
#include "plan/execution.h"
#include "train/device_choice.h"
#include "train/parameters.h"

namespace turbolstm {

struct Evaluation {
  int64_t samples = 0;
  double loss = 0;      // mean, natural units; 0 without samples
  double accuracy = 0;  // share of samples whose most likely label is theirs; 0 without samples
};

// A classifier without gradients and dropout.
class Evaluator {
 public:
  // The parameters must outlive the evaluator.
  Evaluator(const Model& model, const Parameters& parameters, Precision precision,
            const DeviceChoice& device, const std::shared_ptr<StreamPool>& pool);

  // With the parameters as they are now. batch: texts at a time, >= 1.
  Evaluation Evaluate(const EncodedTexts& texts, int64_t batch);

  // [texts, classes]: probabilities of each label, in the texts' order.
  std::vector<std::vector<double>> Predict(const EncodedTexts& texts, int64_t batch);

 private:
  template <typename Visit>
  void ForEachBatch(const EncodedTexts& texts, int64_t batch, Visit visit);

  std::unique_ptr<Execution> execution_;
};

}  // namespace turbolstm
