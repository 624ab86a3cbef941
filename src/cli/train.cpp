#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>  // program_invocation_name
#include <cstdio>
#include <memory>

#include "cells/cell.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "train/trainer.h"

namespace turbolstm::cli {
namespace {

struct TrainOptions {
  std::string config;
  std::vector<std::string> overrides;
  std::string device;
  std::string schedule, tune, plan, profile;
  bool recompute = false;
  bool force = false;
};

void PrintLine(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);  // a pipe shows each epoch when it is done
}

std::string HeldOut(const Evaluation& held_out, double value) {
  return held_out.samples > 0 ? fmt::format("{:.4f}", value) : "-";
}

void PrintStart(const Config& config, const TextTask& task, const Trainer& trainer) {
  PrintLine(fmt::format("data    {}: {} texts to train on, {} held out, {} words", config.data.kind,
                        task.train.size(), task.held_out.size(), task.vocabulary.size()));
  if (task.held_out.size() > 0) {
    PrintLine(fmt::format("        always '{}' would be right for {:.4f} of the held-out",
                          task.labels[static_cast<size_t>(MajorityLabel(task.held_out))],
                          MajorityShare(task.held_out)));
  }
  PrintLine(fmt::format("model   {}, {} x {} units{}, {} parameters, {}", config.model.cell,
                        config.model.layers, config.model.hidden,
                        config.model.bidirectional ? ", bidirectional" : "",
                        trainer.parameters().elements(), config.model.precision));
  PrintLine(fmt::format("device  {}", trainer.device().text));
  PrintLine(fmt::format("run     {}\n", config.output.directory));
  PrintLine("epoch  train loss  held-out loss  accuracy  seconds  evaluation  tokens/s");
}

void PrintEpoch(const EpochReport& report) {
  PrintLine(fmt::format(
      "{:>5}  {:>10.4f}  {:>13}  {:>8}  {:>7.1f}  {:>10.1f}  {:>8.0f}{}", report.epoch,
      report.train_loss, HeldOut(report.held_out, report.held_out.loss),
      HeldOut(report.held_out, report.held_out.accuracy), report.seconds, report.evaluation_seconds,
      report.tokens_per_second, report.best && report.held_out.samples > 0 ? "  best" : ""));
}

std::vector<std::string> OverridesOf(const TrainOptions& options) {
  std::vector<std::string> overrides = options.overrides;
  if (!options.device.empty()) overrides.push_back("train.device=" + options.device);
  if (!options.schedule.empty()) overrides.push_back("train.schedule=" + options.schedule);
  if (!options.tune.empty()) overrides.push_back("train.tune=" + options.tune);
  if (!options.plan.empty()) overrides.push_back("train.plan=" + options.plan);
  if (options.recompute) overrides.emplace_back("train.recompute=true");
  return overrides;
}

void Train(const TrainOptions& options) {
  const Config config = LoadConfig(options.config, OverridesOf(options));
  // Before the data are read.
  FindCell(config.model.cell);
  CheckPrecision(ChooseDevice(config.train.device), PrecisionNamed(config.model.precision));
  const RunDirectory directory(config.output.directory);
  directory.Check(options.force ? ExistingRun::kReplace : ExistingRun::kRefuse);
  const TextTask task = MakeTextTask(LoadTextData(config.data), config.data);
  Trainer trainer(config, task);
  if (!options.profile.empty()) trainer.Profile(options.profile);
  PrintStart(config, task, trainer);

  Progress progress;
  TrainingHooks hooks;
  hooks.on_batch = [&](const BatchReport& report) { progress.Show(report); };
  hooks.on_epoch = [&](const EpochReport& report) {
    progress.Clear();
    PrintEpoch(report);
  };
  hooks.stop = [] { return InterruptGuard::Signal() != 0; };
  const InterruptGuard guard;
  const bool finished = trainer.Run(directory, hooks);
  progress.Clear();
  if (!finished) {
    throw Interrupted{InterruptGuard::Signal(),
                      fmt::format("interrupted in epoch {} after step {}; {} has the state",
                                  trainer.progress().epochs_done + 1, trainer.progress().step,
                                  directory.last().string())};
  }
  if (trainer.progress().best_epoch > 0 && task.held_out.size() > 0) {
    PrintLine(
        fmt::format("\nbest    epoch {}: {:.4f} of the held-out texts are right (always the "
                    "same answer: {:.4f})",
                    trainer.progress().best_epoch, trainer.progress().best_accuracy,
                    MajorityShare(task.held_out)));
  }
  PrintLine(fmt::format("next    {} predict {} \"a film that stays with you\"",
                        program_invocation_name, config.output.directory));
}

}  // namespace

void AddTrain(CLI::App& app) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App* const command =
      app.add_subcommand("train", "Trains a classifier of texts as a config file says");
  command->add_option("config", options->config, "TOML file")->required();
  command->add_option("overrides", options->overrides, "section.key=value, applied in order");
  command->add_option("--device", options->device, "short for train.device=...");
  command->add_option("--schedule", options->schedule, "short for train.schedule=...");
  command->add_option("--tune", options->tune, "short for train.tune=...");
  command->add_option("--plan", options->plan, "short for train.plan=...");
  command->add_option("--profile", options->profile,
                      "folder for a picture, a Chrome trace and the plan of an early step");
  command->add_flag("--recompute", options->recompute, "short for train.recompute=true");
  command->add_flag("--force", options->force, "replace a run that is in output.directory already");
  command->footer([] {
    return "Prints a line an epoch. Writes to output.directory: best.safetensors (weights of the "
           "best\n"
           "epoch, PyTorch's names), checkpoint.safetensors (all that training needs to go on),\n"
           "vocabulary.txt, config.toml, log.csv. Ctrl-C ends it after the current batch with a\n"
           "checkpoint.\n\n"
           "Examples:\n"
           "  turbolstm train examples/sentiment/sentiment.toml\n"
           "  turbolstm train examples/sentiment/sentiment.toml model.cell=gru train.epochs=2 \\\n"
           "      output.directory=runs/gru\n"
           "  turbolstm train examples/sentiment/imdb.toml data.path=/data/aclImdb \\\n"
           "      --device cuda model.precision=bf16\n\n" +
           ConfigKeysHelp();
  });
  command->callback([options] { Train(*options); });
}

}  // namespace turbolstm::cli
