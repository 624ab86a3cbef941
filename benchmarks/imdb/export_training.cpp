// Writes what a training run of ours is made of, so that another program can train on the same
// numbers in the same order:
//   config.toml              the resolved config
//   initial.safetensors      the parameters before the first step, under PyTorch's names
//   epoch-<e>.safetensors    the batches of each epoch, in order (e from 0)
//   held_out.safetensors     those of the evaluation
//   steps.json               losses of the first steps, each before its update (--steps)
// Batches lie in a file one behind the other, as int32: sizes [n, 2] (T, B of each), tokens
// [sum of T * B] (time-major), lengths and labels [sum of B].

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/bucket_sampler.h"
#include "io/atomic_file.h"
#include "io/safetensors.h"
#include "kernels/cell_kernels.h"
#include "train/config.h"
#include "train/text_task.h"
#include "train/trainer.h"

namespace turbolstm {
namespace {

namespace fs = std::filesystem;

struct ExportOptions {
  std::string config;
  std::vector<std::string> overrides;
  fs::path output;
  int64_t steps = 0;
};

void WriteText(const fs::path& path, const std::string& text) {
  AtomicFile file(path);
  file.Write(text);
  file.Commit();
}

NamedTensor IntTensor(const std::string& name, std::vector<int64_t> shape,
                      const std::vector<int32_t>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {name, DType::kInt32, std::move(shape), {bytes.begin(), bytes.end()}};
}

// The rest of the sampler's epoch.
void WriteBatches(const fs::path& path, const EncodedTexts& texts, BucketSampler* sampler) {
  std::vector<int32_t> sizes, tokens, lengths, labels;
  const auto append = [](std::vector<int32_t>* to, const std::vector<int32_t>& from) {
    to->insert(to->end(), from.begin(), from.end());
  };
  while (!sampler->EpochDone()) {
    const Batch batch = MakeBatch(texts, sampler->Next());
    append(&sizes, {static_cast<int32_t>(batch.T), static_cast<int32_t>(batch.B)});
    append(&tokens, batch.tokens);
    append(&lengths, batch.lengths);
    append(&labels, batch.labels);
  }
  WriteSafetensors(path, {.tensors = {IntTensor("sizes", {std::ssize(sizes) / 2, 2}, sizes),
                                      IntTensor("tokens", {std::ssize(tokens)}, tokens),
                                      IntTensor("lengths", {std::ssize(lengths)}, lengths),
                                      IntTensor("labels", {std::ssize(labels)}, labels)},
                          .metadata = {}});
}

BucketSampler TrainingSampler(const Config& config, const TextTask& task) {
  return {task.train.Lengths(),
          {.batch = config.train.batch, .seed = static_cast<uint64_t>(config.train.seed)}};
}

// Trains for some steps of the first epoch; the mean loss of each batch before its update.
std::vector<double> FirstLosses(Trainer* trainer, const Config& config, const TextTask& task,
                                int64_t steps, const RunDirectory& directory) {
  BucketSampler sampler = TrainingSampler(config, task);
  std::vector<double> losses;
  double sum = 0;  // of samples, for the trainer reports their mean since the epoch's start
  int64_t samples = 0;
  TrainingHooks hooks;
  hooks.on_batch = [&](const BatchReport& report) {
    const int64_t B = std::ssize(sampler.Next());
    samples += B;
    const double next = report.loss * static_cast<double>(samples);
    losses.push_back((next - sum) / static_cast<double>(B));
    sum = next;
  };
  hooks.stop = [&] { return std::ssize(losses) >= steps; };
  trainer->Run(directory, hooks);
  return losses;
}

void Export(const ExportOptions& options) {
  Config config = LoadConfig(options.config, options.overrides);
  config.train.device = "cpu";  // losses are asked for step by step
  const TextTask task = MakeTextTask(LoadTextData(config.data), config.data);
  Trainer trainer(config, task);
  fs::create_directories(options.output);
  WriteText(options.output / "config.toml", FormatConfig(config));
  WriteSafetensors(options.output / "initial.safetensors",
                   {.tensors = trainer.parameters().Tensors(), .metadata = {}});

  BucketSampler sampler = TrainingSampler(config, task);
  for (int64_t epoch = 0; epoch < config.train.epochs; ++epoch) {
    sampler.StartEpoch(epoch);
    WriteBatches(options.output / fmt::format("epoch-{}.safetensors", epoch), task.train, &sampler);
  }
  BucketSampler in_order(task.held_out.Lengths(), {.batch = config.train.batch, .shuffle = false});
  WriteBatches(options.output / "held_out.safetensors", task.held_out, &in_order);

  if (options.steps == 0) return;
  const RunDirectory run(options.output / "steps");
  const std::vector<double> losses = FirstLosses(&trainer, config, task, options.steps, run);
  WriteText(options.output / "steps.json", nlohmann::json({{"losses", losses}}).dump() + "\n");
}

int Main(int argc, char** argv) {
  ExportOptions options;
  CLI::App app("Writes the batches, the initial parameters and the first losses of a training run");
  app.add_option("config", options.config, "TOML file of 'turbolstm train'")->required();
  app.add_option("overrides", options.overrides, "section.key=value, applied in order");
  app.add_option("--output", options.output, "folder")->required();
  app.add_option("--steps", options.steps, "steps of the first epoch whose losses are wanted")
      ->check(CLI::NonNegativeNumber);
  CLI11_PARSE(app, argc, argv);
  try {
    RegisterCellKernels();
    Export(options);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace turbolstm

int main(int argc, char** argv) {
  return turbolstm::Main(argc, argv);
}
