#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>

#include "base/error.h"
#include "cli/commands.h"
#include "data/utf8.h"
#include "train/text_task.h"
#include "train/trained_run.h"

namespace turbolstm::cli {
namespace {

struct PredictOptions {
  std::string run;
  std::vector<std::string> sentences;
  std::string device = "auto";
};

// `place`: "sentence 2", "line 7".
void Answer(TrainedRun& run, const std::string& sentence, const std::string& place) {
  const auto invalid = FirstInvalidUtf8(sentence);
  TL_CHECK(!invalid, "[predict] {} is no UTF-8 at byte {}", place, *invalid + 1);
  const std::vector<TextSample> sample = {{.id = place, .text = sentence, .label = 0}};
  const EncodedTexts texts =
      EncodeTexts(sample, run.vocabulary(), EncodeOptionsOf(run.config().data));
  TL_CHECK(texts.Length(0) > 0, "[predict] {} has no words, wants at least one", place);
  const std::vector<double> probabilities = run.evaluator().Predict(texts, 1)[0];
  TL_CHECK(std::ranges::all_of(probabilities, [](double p) { return std::isfinite(p); }),
           "[predict] {}: the model's answer to {} is no number, its weights want to be finite",
           run.file().string(), place);
  const auto best = std::ranges::max_element(probabilities);
  fmt::print("{}\t{:.4f}\t{}\n", run.labels()[static_cast<size_t>(best - probabilities.begin())],
             *best, sentence);
  std::fflush(stdout);  // so that a pipe gets each answer at once
}

void Predict(const PredictOptions& options) {
  TrainedRun run(options.run, options.device);
  for (size_t i = 0; i < options.sentences.size(); ++i) {
    Answer(run, options.sentences[i], fmt::format("sentence {}", i + 1));
  }
  if (!options.sentences.empty()) return;
  std::string line;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    Answer(run, line, fmt::format("line {}", number));
  }
}

}  // namespace

void AddPredict(CLI::App& app) {
  const auto options = std::make_shared<PredictOptions>();
  CLI::App* const command =
      app.add_subcommand("predict", "Answers for sentences given here or as lines of the input");
  command->add_option("run", options->run, "folder that 'turbolstm train' wrote")->required();
  command->add_option("sentences", options->sentences,
                      "texts; without any, each line of the standard input is one");
  command->add_option("--device", options->device, "auto, cpu, cuda or cuda:<number>")
      ->capture_default_str();
  command->footer(
      "Prints a line a sentence: the most likely label, its probability and the sentence, "
      "separated\n"
      "by tabs.\n\n"
      "Examples:\n"
      "  turbolstm predict runs/sentiment \"a film that stays with you\" \"dull and far too "
      "long\"\n"
      "  turbolstm predict runs/sentiment < reviews.txt");
  command->callback([options] { Predict(*options); });
}

}  // namespace turbolstm::cli
