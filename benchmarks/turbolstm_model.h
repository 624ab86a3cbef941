#pragma once

#include <memory>

#include "data/batch.h"
#include "harness/report.h"
#include "train/training_step.h"

namespace turbolstm::bench {

// A classifier of texts that trains on one batch of random words again and again.
class BenchedModel {
 public:
  explicit BenchedModel(const Run& run, const Options& options = {});

  const Model& model() const { return *model_; }
  Parameters* parameters() { return &parameters_; }
  const Config& config() const { return config_; }
  const Batch& batch() const { return batch_; }

 private:
  Config config_;
  std::unique_ptr<Model> model_;
  Parameters parameters_;
  Batch batch_;
};

void MeasureModelOnCpu(const Run& run, const Options& options, Report* report);
// Error when there is no GPU.
void MeasureModelOnDevice(const Run& run, const Options& options, Report* report);

}  // namespace turbolstm::bench
