#include "train/checkpoint.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "turbolstm/version.h"

namespace turbolstm {
namespace {

using Metadata = std::map<std::string, std::string>;

// Reads or writes each field of the progress under its name.
template <typename Progress, typename Visit>
void VisitProgress(Progress& progress, Visit visit) {
  visit("step", progress.step);
  visit("sampler.epoch", progress.sampler.epoch);
  visit("sampler.next_batch", progress.sampler.next_batch);
  visit("epoch.loss_sum", progress.loss_sum);
  visit("epoch.samples", progress.samples);
  visit("optimizer.steps", progress.optimizer_steps);
  visit("optimizer.learning_rate", progress.learning_rate);
  visit("epochs_done", progress.epochs_done);
  visit("best.epoch", progress.best_epoch);
  visit("best.accuracy", progress.best_accuracy);
}

const std::string& Field(const Metadata& metadata, const std::string& name,
                         const std::string& source) {
  const auto field = metadata.find(name);
  TL_CHECK(field != metadata.end(),
           "[checkpoint] {}: metadata lacks '{}', so it is no checkpoint of turbolstm train",
           source, name);
  return field->second;
}

template <typename Number>
void ReadNumber(const std::string& text, std::string_view name, const std::string& source,
                Number* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  TL_CHECK(error == std::errc() && end == text.data() + text.size(),
           "[checkpoint] {}: metadata '{}' is '{}', wants a number", source, name,
           text.substr(0, 80));
}

std::vector<std::string> ReadLabels(const std::string& text, const std::string& source) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  TL_CHECK(json.is_array() && !json.empty(),
           "[checkpoint] {}: metadata 'labels' wants a JSON array of texts", source);
  std::vector<std::string> labels;
  for (const auto& label : json) {
    TL_CHECK(label.is_string(), "[checkpoint] {}: metadata 'labels' holds {}, wants texts", source,
             label.type_name());
    labels.push_back(label.get<std::string>());
  }
  return labels;
}

}  // namespace

void SaveCheckpoint(const std::filesystem::path& path, const CheckpointHeader& header,
                    std::vector<NamedTensor> tensors) {
  SafetensorsFile file{std::move(tensors), {}};
  Config config = header.config;
  config.output.directory.clear();
  config.train.device = TrainConfig().device;
  file.metadata["turbolstm"] = Version();
  file.metadata["config"] = FormatConfig(config);
  file.metadata["labels"] = nlohmann::json(header.labels).dump();
  VisitProgress(header.progress, [&](const char* name, const auto& value) {
    file.metadata[name] = fmt::format("{}", value);
  });
  WriteSafetensors(path, file);
}

Checkpoint LoadCheckpoint(const std::filesystem::path& path) {
  const std::string source = path.string();
  Checkpoint checkpoint{.header = {}, .file = ReadSafetensors(path)};
  const Metadata& metadata = checkpoint.file.metadata;
  CheckpointHeader& header = checkpoint.header;
  header.config = ParseConfig(Field(metadata, "config", source), source + ", its config");
  header.labels = ReadLabels(Field(metadata, "labels", source), source);
  VisitProgress(header.progress, [&](const char* name, auto& value) {
    ReadNumber(Field(metadata, name, source), name, source, &value);
  });
  return checkpoint;
}

}  // namespace turbolstm
