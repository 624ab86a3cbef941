#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/planned_network.h"
#include "cli/table.h"
#include "execution/make_execution.h"
#include "plan/any_inputs.h"
#include "plan/executable.h"
#include "train/device_choice.h"
#include "train/host_tuning.h"

namespace turbolstm::cli {
namespace {

constexpr int kRounds = 7;
constexpr double kMilli = 1e3;
constexpr double kMicro = 1e6;
constexpr double kMiB = 1024.0 * 1024;
constexpr double kTuningSeconds = 5;  // of a CPU's plan

struct BenchOptions {
  NetworkRequest network;
  std::vector<std::string> precisions;
  std::string device = "auto";
  int64_t steps = 256;
  int64_t batch = 64;
  int streams = 0;
  double seconds = 0.5;
  bool tune = false;
  bool recompute = false;
};

std::unique_ptr<Execution> MakeBenched(const BenchOptions& options, const DeviceChoice& device,
                                       const PlannedNetwork& network) {
  const Precision precision = PrecisionNamed(network.precision);
  if (device.kind == DeviceKind::kCuda) {
    return MakeCudaExecution(network.graph, {.index = device.index,
                                             .precision = precision,
                                             .boundary = BoundaryType::kOperand,
                                             .recompute = options.recompute,
                                             .tune = options.tune});
  }
  ExecutableOptions executable{.precision = precision, .streams = options.streams};
  executable.recompute = options.recompute;
  executable.tune = HostTuning(options.tune ? kTuningSeconds : 0);
  return std::make_unique<Executable>(network.graph, executable);
}

// The output that is fetched soonest: that its numbers are there shows that a run has ended.
std::string SmallestOutput(const Execution& execution, int64_t rows, int64_t batch) {
  const auto elements = [&](const NamedView& output) {
    if (output.domain == Domain::kStatic) return output.view.width;
    return output.view.width * (output.domain == Domain::kStep ? rows : batch);
  };
  const auto& outputs = execution.lowered().outputs;
  return std::ranges::min_element(outputs, {}, elements)->name;
}

// Seconds of a run, in each of several rounds, in order. On a CPU the parameters of a training step
// have changed, as they have in training: they are packed anew. On a GPU every run prepares them.
std::vector<double> TimeRuns(const BenchOptions& options, bool training, bool changed,
                             Execution* execution) {
  execution->SetShape(options.steps, options.batch);
  const AnyInputs inputs(execution, options.steps, options.batch);
  const std::string last = SmallestOutput(*execution, options.steps * options.batch, options.batch);
  const auto time = [&](int64_t runs) {
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < runs; ++i) {
      if (changed) execution->ParametersChanged();
      execution->Run({.training = training});
    }
    execution->Output(last);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    return passed.count() / static_cast<double>(runs);
  };
  time(1);
  const double one = time(1);
  const auto runs = std::max<int64_t>(1, static_cast<int64_t>(options.seconds / kRounds / one));
  std::vector<double> rounds(kRounds);
  std::ranges::generate(rounds, [&] { return time(runs); });
  std::ranges::sort(rounds);
  return rounds;
}

void AddRows(const BenchOptions& options, const DeviceChoice& device, bool training, Table* table) {
  NetworkRequest request = options.network;
  request.inference = !training;
  for (const std::string& precision : options.precisions) {
    request.precision = precision;
    const PlannedNetwork network = BuildNetwork(request);
    const std::unique_ptr<Execution> execution = MakeBenched(options, device, network);
    const bool changed = training && device.kind == DeviceKind::kCpu;
    const std::vector<double> rounds = TimeRuns(options, training, changed, execution.get());
    const double median = rounds[rounds.size() / 2];
    const auto layer_steps =
        static_cast<double>(request.layers * std::max<int64_t>(1, options.steps));
    table->Add({precision, training ? "training step" : "forward",
                fmt::format("{:.3f}", kMilli * median),
                fmt::format("{:.3f}", kMilli * rounds.front()),
                fmt::format("{:.3f}", kMilli * rounds.back()),
                fmt::format("{:.2f}", kMicro * median / layer_steps),
                fmt::format("{:.0f}", static_cast<double>(options.batch) / median),
                fmt::format("{:.1f}", static_cast<double>(execution->memory_bytes()) / kMiB)});
  }
}

void Bench(BenchOptions options) {
  const DeviceChoice device = ChooseDevice(options.device);
  if (options.streams == 0) {
    options.streams = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  if (options.precisions.empty()) options.precisions = {"fp32"};
  for (const std::string& precision : options.precisions) {
    CheckPrecision(device, PrecisionNamed(precision));
  }
  const NetworkRequest& network = options.network;
  BuildNetwork(network);  // an error comes before anything is said
  fmt::print("network  {}, {} layer{} of {} units{}, {} features; T {}, B {}\n", network.cell,
             network.layers, network.layers == 1 ? "" : "s", network.hidden,
             network.bidirectional ? " in both directions" : "", network.input, options.steps,
             options.batch);
  fmt::print("device   {}{}\n\n", device.text, options.tune ? ", tuned by measurement" : "");
  using Align = Table::Align;
  Table table({Align::kLeft, Align::kLeft, Align::kRight, Align::kRight, Align::kRight,
               Align::kRight, Align::kRight, Align::kRight});
  table.Add(
      {"precision", "pass", "ms", "least", "most", "us a layer and step", "sequences/s", "MiB"});
  AddRows(options, device, false, &table);
  if (!network.inference) AddRows(options, device, true, &table);
  fmt::print("{}", table.Text());
}

}  // namespace

void AddBench(CLI::App& app) {
  const auto options = std::make_shared<BenchOptions>();
  options->network.cell = "lstm";
  CLI::App* const command = app.add_subcommand("bench", "Times recurrent layers on this machine");
  const auto size = [&](const char* name, auto* value, int64_t least, const char* help) {
    command->add_option(name, *value, help)
        ->check(CLI::Range(least, int64_t{1} << 20))
        ->capture_default_str();
  };
  command->add_option("--cell", options->network.cell, "'turbolstm cells' lists them")
      ->capture_default_str();
  size("--input", &options->network.input, 1, "features of the input");
  size("--hidden", &options->network.hidden, 1, "units");
  size("--layers", &options->network.layers, 1, "stacked layers");
  command->add_flag("--bidirectional", options->network.bidirectional, "both directions");
  size("--steps", &options->steps, 1, "T, time steps");
  size("--batch", &options->batch, 1, "B, sequences");
  command
      ->add_option("--precision", options->precisions,
                   "fp32, bf16; on a GPU tf32, fp16 and bf16x6 too; several: fp32,bf16")
      ->delimiter(',')
      ->check(CLI::IsMember({"fp32", "bf16", "tf32", "fp16", "bf16x6"}))
      ->default_str("fp32");
  command->add_option("--device", options->device, "auto, cpu, cuda or cuda:<number>")
      ->capture_default_str();
  command->add_option("--streams", options->streams, "worker threads on a CPU; 0: one a core")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "to measure each row for")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  command->add_flag("--inference", options->network.inference, "the forward pass alone");
  command->add_flag("--recompute", options->recompute,
                    "keep less for the backward pass, compute it again");
  command->add_flag(
      "--tune", options->tune,
      "find the fastest plan, or on a GPU the fastest kernels of loops, by measuring; "
      "what is found is kept for the next time");
  command->footer(
      "A training step is forward, then backward to all weights and the input, without loss and\n"
      "update. Times are medians of 7 rounds of runs one after the other; MiB is what the network\n"
      "takes beside the caller's arrays.\n\n"
      "Examples:\n"
      "  turbolstm bench --hidden 512 --input 512\n"
      "  turbolstm bench --cell gru --layers 2 --bidirectional --precision fp32,bf16\n"
      "  turbolstm bench --hidden 256 --batch 16 --device cuda --precision bf16 --tune");
  command->callback([options] { Bench(*options); });
}

}  // namespace turbolstm::cli
