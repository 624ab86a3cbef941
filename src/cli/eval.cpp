#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "train/text_task.h"
#include "train/trained_run.h"

namespace turbolstm::cli {
namespace {

struct EvalOptions {
  std::string run;
  std::string data;
  std::string part = "held-out";
  std::string device = "auto";
  std::vector<std::string> overrides;
};

// The run's own config with what the command line changes.
DataConfig DataOf(const Config& config, const EvalOptions& options) {
  for (const std::string& override : options.overrides) {
    TL_CHECK(override.starts_with("data."),
             "[eval] got '{}', wants keys of section data only: the rest is the run's", override);
  }
  std::vector<std::string> overrides = options.overrides;
  if (!options.data.empty()) overrides.push_back("data.path=" + options.data);
  return ParseConfig(FormatConfig(config), "the run's config", overrides).data;
}

void Eval(const EvalOptions& options) {
  TrainedRun run(options.run, options.device);
  const DataConfig config = DataOf(run.config(), options);
  const TextData data = LoadTextData(config);
  const auto& samples = options.part == "train" ? data.train : data.held_out;
  const EncodedTexts texts = EncodeTexts(samples, run.vocabulary(), EncodeOptionsOf(config));
  const Evaluation result = run.evaluator().Evaluate(texts, run.config().train.batch);
  fmt::print("weights   {}, epoch {}\n", run.file().string(), run.progress().epochs_done);
  fmt::print("data      {}, {} part: {} texts\n", config.kind, options.part, result.samples);
  fmt::print("device    {}, {}\n", run.device().text, Name(run.precision()));
  fmt::print("loss      {:.4f}\n", result.loss);
  fmt::print("accuracy  {:.4f} (always '{}': {:.4f})\n", result.accuracy,
             run.labels()[static_cast<size_t>(MajorityLabel(texts))], MajorityShare(texts));
}

}  // namespace

void AddEval(CLI::App& app) {
  const auto options = std::make_shared<EvalOptions>();
  CLI::App* const command =
      app.add_subcommand("eval", "Measures a trained model on the held-out texts");
  command->add_option("run", options->run, "folder that 'turbolstm train' wrote")->required();
  command->add_option("overrides", options->overrides,
                      "section.key=value, for the keys of section data");
  command->add_option("--data", options->data, "short for data.path=...");
  command->add_option("--part", options->part, "texts to measure on")
      ->check(CLI::IsMember({"held-out", "train"}))
      ->capture_default_str();
  command->add_option("--device", options->device, "auto, cpu, cuda or cuda:<number>")
      ->capture_default_str();
  command->footer(
      "Examples:\n"
      "  turbolstm eval runs/sentiment\n"
      "  turbolstm eval runs/sentiment --part train\n"
      "  turbolstm eval runs/sentiment data.kind=imdb --data aclImdb");
  command->callback([options] { Eval(*options); });
}

}  // namespace turbolstm::cli
