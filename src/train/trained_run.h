#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/vocabulary.h"
#include "nn/model.h"
#include "train/checkpoint.h"
#include "train/evaluator.h"
#include "train/parameters.h"

namespace turbolstm {

// A model as 'turbolstm train' left it, ready to answer.
class TrainedRun {
 public:
  // Throws Error naming the file that is missing, truncated or does not fit the others.
  // device: see ChooseDevice; where the run was trained does not matter.
  TrainedRun(const std::filesystem::path& directory, const std::string& device);

  const Config& config() const { return header_.config; }
  const std::vector<std::string>& labels() const { return header_.labels; }
  const TrainingProgress& progress() const { return header_.progress; }
  const Vocabulary& vocabulary() const { return vocabulary_; }
  const std::filesystem::path& file() const { return file_; }
  const DeviceChoice& device() const { return device_; }
  Precision precision() const { return precision_; }
  Evaluator& evaluator() { return *evaluator_; }

 private:
  DeviceChoice device_;
  std::filesystem::path file_;
  Vocabulary vocabulary_;
  CheckpointHeader header_;
  Precision precision_ = Precision::kFloat32;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Parameters> parameters_;
  std::unique_ptr<Evaluator> evaluator_;
};

}  // namespace turbolstm
