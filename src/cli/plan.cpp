#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>

#include "base/error.h"
#include "base/philox.h"
#include "base/read_file.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/planned_network.h"
#include "cli/table.h"
#include "execution/device_lowering.h"
#include "execution/memory_plan.h"
#include "graph/dot.h"
#include "io/atomic_file.h"
#include "plan/dependencies.h"
#include "plan/executable.h"
#include "plan/footprint.h"
#include "plan/print.h"
#include "plan/verify.h"

namespace turbolstm::cli {
namespace {

constexpr double kMilli = 1e3;
constexpr double kMiB = 1024.0 * 1024;
constexpr int kTimedRuns = 5;  // behind one that is not counted

struct PlanOptions {
  NetworkRequest network;
  std::vector<std::string> words;  // config and overrides
  int64_t steps = 100;
  int64_t batch = 32;
  ExecutableOptions executable;
  bool schedule = false;
  bool tasks_dot = false;
  bool network_dot = false;
  bool run = false;
  bool memory = false;
  std::string trace;
  std::string check;
};

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Numbers for everything that the graph reads; index 0 is legal everywhere.
class AnyInputs {
 public:
  explicit AnyInputs(Executable* executable) {
    const LoweredGraph& graph = executable->lowered();
    const int64_t batch = executable->layout().batch();
    const int64_t rows = executable->layout().steps() * batch;
    for (const NamedView& input : graph.inputs) {
      int64_t count = input.view.width;
      if (input.domain != Domain::kStatic) count *= input.domain == Domain::kStep ? rows : batch;
      const auto elements = static_cast<size_t>(count);
      if (graph.buffers[static_cast<size_t>(input.view.buffer)].dtype == DType::kInt32) {
        executable->BindIndices(input.name, indices_.emplace_back(elements, 0));
      } else {
        std::vector<float>& values = numbers_.emplace_back(elements);
        const RandomSite site{1, 0, static_cast<uint32_t>(numbers_.size())};
        for (size_t i = 0; i < elements; ++i) values[i] = 0.1f * (site.Uniform(i) - 0.5f);
        executable->Bind(input.name, values);
      }
    }
  }

 private:
  std::vector<std::vector<float>> numbers_;
  std::vector<std::vector<int32_t>> indices_;
};

// The median of a few runs, in seconds; records the times of the last one's tasks.
double Measure(Executable* executable) {
  const AnyInputs inputs(executable);
  executable->RecordTimes(true);
  std::vector<double> seconds;
  for (int i = 0; i <= kTimedRuns; ++i) {
    executable->ParametersChanged();
    const auto begin = std::chrono::steady_clock::now();
    executable->Run({.training = true});
    if (i > 0) seconds.push_back(SecondsSince(begin));
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

std::string Groups(const LoweredGraph& graph) {
  using Align = Table::Align;
  Table table({Align::kLeft, Align::kLeft, Align::kLeft, Align::kRight, Align::kRight});
  table.Add({"group", "kind", "runs over", "products deep", "kernels"});
  for (const Group& group : graph.groups) {
    const char* const arrow = group.direction == Direction::kForward ? "" : ", backwards";
    table.Add({group.name, std::string(Name(group.kind)),
               fmt::format("{}{}", Name(group.domain), group.is_loop() ? arrow : ""),
               group.is_loop() ? fmt::format("{}", group.levels) : "",
               fmt::format("{}", group.stages.size())});
  }
  return table.Text();
}

// How much of a value's rows are kept.
std::string Kept(const Buffer& buffer) {
  if (buffer.source == BufferSource::kParameter) return "parameter";
  if (buffer.source == BufferSource::kInput) return "input";
  if (buffer.local) return "one step, by stream";
  return buffer.ring > 0 ? fmt::format("{} steps", buffer.ring) : std::string(Name(buffer.domain));
}

// What takes up memory, largest first.
std::string MemoryTable(const Executable& executable) {
  using Align = Table::Align;
  struct Row {
    int64_t bytes;
    std::string name, kept;
  };
  std::vector<Row> rows;
  const std::vector<Buffer>& buffers = executable.lowered().buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    rows.push_back(
        {executable.memory().BytesOf(static_cast<int32_t>(i)), buffers[i].name, Kept(buffers[i])});
  }
  rows.push_back({executable.packed_bytes(), "packed weights", ""});
  std::ranges::stable_sort(rows, [](const Row& a, const Row& b) { return a.bytes > b.bytes; });
  Table table({Align::kLeft, Align::kLeft, Align::kRight});
  table.Add({"value", "kept", "MiB"});
  for (const Row& row : rows) {
    table.Add({row.name, row.kept, fmt::format("{:.3f}", static_cast<double>(row.bytes) / kMiB)});
  }
  return table.Text();
}

std::string Mebibytes(int64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / kMiB);
}

// What keeping activations and computing them again take, as planned.
std::string RecomputeTable(const PlanOptions& options, const PlannedNetwork& network,
                           const Executable& executable) {
  ExecutableOptions other_options = options.executable;
  other_options.recompute = !options.executable.recompute;
  Executable other(network.graph, other_options);
  other.SetShape(options.steps, options.batch);
  using Align = Table::Align;
  Table table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight});
  table.Add({"MiB", "saved for the backward pass", "in all, CPU", "GPU"});
  for (const bool recompute : {false, true}) {
    const Executable& planned = recompute == options.executable.recompute ? executable : other;
    const LoweredGraph on_device = LowerForDevice(network.graph, options.executable.precision,
                                                  BoundaryType::kFloat32, recompute);
    MemoryPlan device_plan(on_device);
    device_plan.SetShape(options.steps, options.batch);
    table.Add({recompute ? "with --recompute" : "without",
               Mebibytes(SavedBytes(planned.lowered(), options.steps, options.batch)),
               Mebibytes(planned.memory_bytes()), Mebibytes(device_plan.shared_bytes())});
  }
  return table.Text();
}

void PrintSummary(const PlanOptions& options, const PlannedNetwork& network,
                  const Executable& executable, const Dependencies& dependencies,
                  double planning_seconds) {
  const Plan& plan = executable.plan();
  double path_seconds = 0;
  const std::vector<int32_t> path = CriticalPath(plan.partition.tasks, dependencies);
  for (const int32_t task : path) {
    path_seconds += plan.partition.tasks[static_cast<size_t>(task)].cost;
  }
  fmt::print("network    {}\n", network.description);
  fmt::print("shape      T {}, B {}\n", options.steps, options.batch);
  fmt::print("plan       {} tasks on {} streams; blocks of {} steps, tiles of {} sequences\n",
             plan.partition.tasks.size(), plan.schedule.streams.size(), plan.partition.options.time_block,
             plan.partition.options.row_tile);
  fmt::print("estimate   {:.3f} ms; critical path of {} tasks, {:.3f} ms\n",
             kMilli * plan.schedule.EstimatedSeconds(), path.size(), kMilli * path_seconds);
  fmt::print("memory     {:.1f} MiB beside inputs and parameters, {:.1f} of them packed weights\n",
             static_cast<double>(executable.memory_bytes()) / kMiB,
             static_cast<double>(executable.packed_bytes()) / kMiB);
  fmt::print("planned    and verified in {:.3f} ms\n", kMilli * planning_seconds);
}

void CheckSchedule(const std::string& path, const Plan& plan, const Dependencies& dependencies) {
  try {
    const Schedule schedule = ParseSchedule(ReadFile(path), plan.partition.tasks, dependencies);
    fmt::print("schedule   {} is correct; estimate {:.3f} ms, ours {:.3f} ms\n", path,
               kMilli * schedule.EstimatedSeconds(), kMilli * plan.schedule.EstimatedSeconds());
  } catch (const Error& error) {
    Fail("{}: {}", path, error.what());
  }
}

void WriteTrace(const PlanOptions& options, const Executable& executable) {
  const Plan& plan = executable.plan();
  AtomicFile file(options.trace);
  file.Write(PrintTrace(plan.partition.tasks, plan.schedule,
                        options.run ? executable.task_times() : plan.schedule.estimate));
  file.Commit();
}

void ShowPlan(PlanOptions& options) {
  if (!options.words.empty()) {
    options.network.config = options.words.front();
    options.network.overrides.assign(options.words.begin() + 1, options.words.end());
  }
  const PlannedNetwork network = BuildNetwork(options.network);
  if (options.network_dot) {
    const Analysis analysis = Analyse(network.graph);
    fmt::print("{}", PrintDot(network.graph, &analysis));
    return;
  }
  options.executable.precision = PrecisionNamed(network.precision);
  TL_CHECK(options.executable.precision == Precision::kFloat32 ||
               options.executable.precision == Precision::kBFloat16,
           "[plan] model.precision is '{}', which needs a GPU; plans are made for the CPU, which "
           "has fp32 and bf16",
           network.precision);
  options.executable.recompute |= network.recompute;
  options.executable.verify = true;
  Executable executable(network.graph, options.executable);
  const auto begin = std::chrono::steady_clock::now();
  executable.SetShape(options.steps, options.batch);
  const double planning_seconds = SecondsSince(begin);
  const Plan& plan = executable.plan();
  const Dependencies dependencies = DeriveDependencies(plan.partition.tasks);
  const double measured = options.run ? Measure(&executable) : 0;
  if (!options.trace.empty()) WriteTrace(options, executable);
  if (options.tasks_dot) {
    fmt::print("{}", PrintTaskGraph(plan.partition.tasks, dependencies, &plan.schedule));
    return;
  }
  if (options.schedule) {
    fmt::print("{}", PrintSchedule(plan.partition.tasks, dependencies, plan.schedule));
    return;
  }
  PrintSummary(options, network, executable, dependencies, planning_seconds);
  if (options.run)
    fmt::print("measured   {:.3f} ms, median of {}\n", kMilli * measured, kTimedRuns);
  if (!options.check.empty()) return CheckSchedule(options.check, plan, dependencies);
  fmt::print("\n{}", Groups(executable.lowered()));
  if (!options.network.inference) {
    fmt::print("\n{}", RecomputeTable(options, network, executable));
  }
  if (options.memory) fmt::print("\n{}", MemoryTable(executable));
}

void AddNetworkOptions(CLI::App* command, NetworkRequest* network) {
  CLI::Option* const cell = command->add_option(
      "--cell", network->cell, "recurrent layers alone; 'turbolstm cells' lists them");
  // A config has keys of its own for these, so with one they would say nothing.
  const auto size = [&](const char* name, int64_t* value, int64_t least, const char* help) {
    command->add_option(name, *value, help)
        ->check(CLI::Range(least, int64_t{1} << 20))
        ->capture_default_str()
        ->needs(cell);
  };
  size("--input", &network->input, 1, "features of the input, with --cell");
  size("--hidden", &network->hidden, 1, "units, with --cell");
  size("--projection", &network->projection, 0, "size of a projected output, with --cell");
  size("--layers", &network->layers, 1, "stacked layers, with --cell");
  command->add_flag("--bidirectional", network->bidirectional, "both directions, with --cell")
      ->needs(cell);
  command->add_option("--precision", network->precision, "with --cell")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str()
      ->needs(cell);
  command->add_flag("--inference", network->inference, "forward only, not a training step");
}

void AddShapeOptions(CLI::App* command, PlanOptions* options) {
  const auto size = [&](const char* name, auto* value, const char* help) {
    command->add_option(name, *value, help)
        ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
        ->capture_default_str();
  };
  size("--steps", &options->steps, "T, time steps");
  size("--batch", &options->batch, "B, sequences");
  command->add_option("--streams", options->executable.streams, "worker threads; 0: one a core")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command
      ->add_option_function<std::string>(
          "--schedule",
          [options](const std::string& name) { options->executable.schedule = ScheduleNamed(name); },
          ScheduleNames())
      ->default_str(std::string(Name(options->executable.schedule)));
  size("--time-block", &options->executable.time_block, "steps of a task; 0: chosen");
  size("--sum-block", &options->executable.sum_block,
       "steps that a part of a weight's gradient covers; 0: chosen");
  size("--row-tile", &options->executable.row_tile, "sequences of a task; 0: chosen");
}

}  // namespace

void AddPlan(CLI::App& app) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* const command =
      app.add_subcommand("plan", "Shows how a network is cut into tasks and scheduled");
  command->add_option("config", options->words, "TOML file, then section.key=value ...");
  AddNetworkOptions(command, &options->network);
  AddShapeOptions(command, options.get());
  command->add_flag("--print", options->schedule, "print the schedule: streams and their tasks");
  command->add_flag("--dot", options->tasks_dot, "print the tasks for Graphviz");
  command->add_flag("--network", options->network_dot, "print the network for Graphviz");
  command->add_flag("--recompute", options->executable.recompute,
                    "keep less for the backward pass, compute it again");
  command->add_flag("--memory", options->memory, "print what takes up memory, largest first");
  command->add_flag("--run", options->run, "run it on made-up numbers and measure");
  command->add_option("--trace", options->trace,
                      "write a Chrome trace: the estimate, or with --run what was measured");
  command->add_option("--check", options->check,
                      "verify a schedule that --schedule printed and somebody edited");
  command->footer(
      "Every plan is verified: whatever order the streams run in, no task reads what is not yet\n"
      "written.\n\n"
      "Examples:\n"
      "  turbolstm plan examples/sentiment/sentiment.toml --steps 20\n"
      "  turbolstm plan --cell lstm --steps 100 --batch 32 --run --trace lstm.json\n"
      "  turbolstm plan --cell gru --layers 2 --schedule > gru.schedule\n"
      "  turbolstm plan --cell gru --layers 2 --check gru.schedule\n"
      "  turbolstm plan --cell mgu --inference --dot | dot -Tsvg > mgu.svg\n"
      "Open traces in chrome://tracing or https://ui.perfetto.dev.");
  command->callback([options] { ShowPlan(*options); });
}

}  // namespace turbolstm::cli
