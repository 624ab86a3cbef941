#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/bucket_sampler.h"
#include "io/safetensors.h"
#include "train/config.h"

namespace turbolstm {

// How far a run has come: with the weights and the optimiser's arrays all that it needs to go on.
// Random numbers are counted by seed (in the config) and step.
struct TrainingProgress {
  int64_t step = 0;  // updates made
  SamplerState sampler;
  double loss_sum = 0;  // of the current epoch's samples
  int64_t samples = 0;  // trained on in the current epoch
  int64_t optimizer_steps = 0;
  double learning_rate = 0;
  int64_t epochs_done = 0;
  int64_t best_epoch = 0;  // counts from 1; 0: none yet
  double best_accuracy = 0;

  bool operator==(const TrainingProgress&) const = default;
};

// What a checkpoint says beside its tensors. It does not depend on where or how fast it was made:
// the config's output.directory is left empty, and train.device is what it is by default.
struct CheckpointHeader {
  Config config;
  std::vector<std::string> labels;
  TrainingProgress progress;
};

inline constexpr std::string_view kOptimizerPrefix = "optimizer.";

// Writes one safetensors file atomically: the tensors, and the header as its metadata.
void SaveCheckpoint(const std::filesystem::path& path, const CheckpointHeader& header,
                    std::vector<NamedTensor> tensors);

struct Checkpoint {
  CheckpointHeader header;
  SafetensorsFile file;
};
// Throws Error naming the file and what is missing or cannot be read in it.
Checkpoint LoadCheckpoint(const std::filesystem::path& path);

}  // namespace turbolstm
