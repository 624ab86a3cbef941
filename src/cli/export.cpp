#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "exchange/run_export.h"

namespace turbolstm::cli {
namespace {

struct ExportOptions {
  std::string run;
  std::string onnx;
};

}  // namespace

void AddExport(CLI::App& app) {
  const auto options = std::make_shared<ExportOptions>();
  CLI::App* const command =
      app.add_subcommand("export", "Writes a trained model in another format");
  command->add_option("run", options->run, "folder that 'turbolstm train' wrote")->required();
  command->add_option("--onnx", options->onnx, "ONNX file to write")->required();
  command->footer(
      "The model reads tokens [T, B] (int64, rows of the run's vocabulary.txt) and sequence_lens\n"
      "[B] (int32), and gives logits and probabilities [B, classes]; T and B are free.\n\n"
      "Example:\n"
      "  turbolstm export runs/sentiment --onnx sentiment.onnx");
  command->callback([options] {
    ExportRunToOnnx(options->run, options->onnx);
    fmt::print("{}\n", options->onnx);
  });
}

}  // namespace turbolstm::cli
