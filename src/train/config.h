#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace turbolstm {

// What a training run is told. The defaults stand here; everything else about a key (its type,
// range, meaning) stands in the one table of config_keys.cpp.
struct DataConfig {
  std::string kind = "snippets";
  std::string path;
  int64_t vocabulary = 20000;
  int64_t max_length = 400;
  std::string keep = "head";
  double neutral_below = 0.5;
  double held_out = 0.1;
  int64_t seed = 1;

  bool operator==(const DataConfig&) const = default;
};

struct ModelConfig {
  std::string cell = "lstm";
  int64_t embedding = 128;
  int64_t hidden = 128;
  int64_t projection = 0;
  int64_t layers = 1;
  bool bidirectional = false;
  double dropout = 0.0;
  std::string pooling = "last";
  std::string precision = "fp32";

  bool operator==(const ModelConfig&) const = default;
};

struct TrainConfig {
  int64_t epochs = 5;
  int64_t batch = 32;
  std::string optimizer = "adam";
  double learning_rate = 0.001;
  double weight_decay = 0.0;
  double momentum = 0.0;
  double clip_norm = 1.0;
  int64_t seed = 1;
  int64_t threads = 0;
  std::string device = "auto";
  bool recompute = false;
  std::string schedule = "auto";
  double tune = 0;
  std::string plan;

  bool operator==(const TrainConfig&) const = default;
};

struct OutputConfig {
  std::string directory = "runs/latest";

  bool operator==(const OutputConfig&) const = default;
};

struct Config {
  DataConfig data;
  ModelConfig model;
  TrainConfig train;
  OutputConfig output;

  bool operator==(const Config&) const = default;
};

// One key as `--help` and the documentation print it.
struct ConfigKeyHelp {
  std::string name;           // "train.batch"
  std::string default_value;  // as TOML
  std::string wanted;         // "an integer from 1 to 65536"
  std::string help;
};
std::vector<ConfigKeyHelp> ConfigKeys();

// Reads TOML; keys that are absent keep their default. `overrides` are "section.key=value" strings,
// applied in order after the file; a text value needs no quotes there. Throws Error naming the
// place ("file:line:column" or the override), what came and what was wanted; an unknown key comes
// with the nearest one that exists.
Config ParseConfig(std::string_view toml, std::string_view source,
                   std::span<const std::string> overrides = {});
Config LoadConfig(const std::filesystem::path& path, std::span<const std::string> overrides = {});

// The resolved config as TOML: every key, in the order of ConfigKeys. ParseConfig gives it back.
std::string FormatConfig(const Config& config);

}  // namespace turbolstm
