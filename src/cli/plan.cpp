#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "base/error.h"
#include "base/read_file.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/plan_compare.h"
#include "cli/plan_report.h"
#include "cli/planned_network.h"
#include "graph/dot.h"
#include "io/atomic_file.h"
#include "plan/any_inputs.h"
#include "plan/dependencies.h"
#include "plan/executable.h"
#include "plan/print.h"
#include "plan/timeline.h"
#include "train/host_tuning.h"

namespace turbolstm::cli {
namespace {

constexpr double kMilli = 1e3;
constexpr int kTimedRuns = 5;  // behind one that is not counted

struct PlanOptions {
  NetworkRequest network;
  std::vector<std::string> words;  // config and overrides
  int64_t steps = 100;
  int64_t batch = 32;
  ExecutableOptions executable;
  bool print = false;
  bool tasks_dot = false;
  bool network_dot = false;
  bool run = false;
  bool memory = false;
  bool compare = false;
  double race_seconds = 2;
  std::string trace;
  std::string svg;
  std::string check;
  std::string from;
};

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Measurement {
  double median = 0;            // seconds
  std::vector<TaskTime> tasks;  // of the fastest run
};

Measurement Measure(Executable* executable) {
  const AnyInputs inputs(executable, executable->layout().steps(), executable->layout().batch());
  executable->RecordTimes(true);
  std::vector<double> seconds;
  Measurement measured;
  for (int i = 0; i <= kTimedRuns; ++i) {
    executable->ParametersChanged();
    const auto begin = std::chrono::steady_clock::now();
    executable->Run({.training = true});
    if (i == 0) continue;
    seconds.push_back(SecondsSince(begin));
    if (seconds.back() == *std::ranges::min_element(seconds)) {
      measured.tasks = executable->task_times();
    }
  }
  std::ranges::sort(seconds);
  measured.median = seconds[seconds.size() / 2];
  return measured;
}

void Write(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.Write(text);
  file.Commit();
}

// A whole plan, or the streams of the one at hand.
void CheckPlan(const std::string& path, const Executable& executable) {
  const Plan& plan = executable.plan();
  const std::string text = ReadFile(path);
  try {
    const bool whole = text.find("\nsteps ") != std::string::npos || text.starts_with("steps ");
    const Schedule schedule =
        whole ? ParsePlan(text, executable.lowered()).schedule
              : ParseSchedule(text, plan.partition.tasks, DeriveDependencies(plan.partition.tasks));
    fmt::print("schedule   {} is correct; estimate {:.3f} ms, ours {:.3f} ms\n", path,
               kMilli * schedule.EstimatedSeconds(), kMilli * plan.schedule.EstimatedSeconds());
  } catch (const Error& error) {
    Fail("{}: {}", path, error.what());
  }
}

void TakeGivenPlan(PlanOptions* options) {
  options->executable.given_plan = ReadFile(options->from);
  try {
    const PlanShape shape = ShapeOfPlan(options->executable.given_plan);
    options->steps = shape.steps;
    options->batch = shape.batch;
  } catch (const Error& error) {
    Fail("{}: {}", options->from, error.what());
  }
}

ExecutableOptions OptionsFor(PlanOptions* options, const PlannedNetwork& network) {
  if (!options->from.empty()) TakeGivenPlan(options);
  ExecutableOptions executable = options->executable;
  executable.precision = PrecisionNamed(network.precision);
  TL_CHECK(
      executable.precision == Precision::kFloat32 || executable.precision == Precision::kBFloat16,
      "[plan] model.precision is '{}', which needs a GPU; plans are made for the CPU, which "
      "has fp32 and bf16",
      network.precision);
  executable.recompute |= network.recompute;
  TL_CHECK(!executable.recompute || !options->network.inference,
           "[plan] --recompute is for the backward pass, which --inference leaves out");
  if (executable.streams == 0) {
    executable.streams = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  executable.tune = HostTuning(executable.tune.seconds);
  executable.verify = true;
  return executable;
}

std::string WhatWasAsked(const PlanOptions& options) {
  if (!options.from.empty()) return "as " + options.from + " says";
  const std::string name(Name(options.executable.schedule));
  return options.executable.tune.seconds > 0 ? name + ", measured" : name;
}

void PrintReport(const PlanOptions& options, const PlannedNetwork& network,
                 const Executable& executable, const ExecutableOptions& made_with,
                 const PlanTimes& how_long, std::span<const TaskTime> times) {
  fmt::print("{}", PlanSummary(network, executable, WhatWasAsked(options), how_long, times));
  if (!options.check.empty()) return CheckPlan(options.check, executable);
  fmt::print("\n{}", GroupsTable(executable.lowered()));
  if (!options.network.inference) {
    fmt::print("\n{}", RecomputeTable(network, executable, made_with));
  }
  if (options.memory) fmt::print("\n{}", MemoryTable(executable));
}

void ShowTasks(const PlanOptions& options, const PlannedNetwork& network,
               const ExecutableOptions& made_with) {
  Executable executable(network.graph, made_with);
  const auto begin = std::chrono::steady_clock::now();
  executable.SetShape(options.steps, options.batch);
  PlanTimes how_long{.planning = SecondsSince(begin)};
  const Plan& plan = executable.plan();
  std::vector<TaskTime> times = plan.schedule.estimate;
  if (options.run) {
    Measurement measured = Measure(&executable);
    how_long.measured = measured.median;
    how_long.runs = kTimedRuns;
    times = std::move(measured.tasks);
  }
  const std::vector<Task>& tasks = plan.partition.tasks;
  if (!options.trace.empty()) Write(options.trace, PrintTrace(tasks, plan.schedule, times));
  if (!options.svg.empty()) {
    const std::string title =
        fmt::format("{}; T {}, B {}; {}, {}", network.description, plan.steps, plan.batch,
                    WhatWasAsked(options), options.run ? "measured" : "predicted");
    Write(options.svg, PrintSvg(executable.lowered(), plan, times, title));
  }
  if (options.tasks_dot) {
    fmt::print("{}", PrintTaskGraph(tasks, DeriveDependencies(tasks), &plan.schedule));
  } else if (options.print) {
    fmt::print("{}", PrintPlan(plan));
  } else {
    PrintReport(options, network, executable, made_with, how_long, times);
  }
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
  const ExecutableOptions executable = OptionsFor(&options, network);
  if (!options.compare) return ShowTasks(options, network, executable);
  fmt::print(
      "{}; T {}, B {}\n\n{}", network.description, options.steps, options.batch,
      CompareSchedules(network, executable,
                       {options.steps, options.batch, options.run ? options.race_seconds : 0.0}));
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
  command
      ->add_option("--beside", network->beside,
                   "a second network: cell, cell:hidden or cell:hidden:layers")
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
          [options](const std::string& name) {
            options->executable.schedule = ScheduleNamed(name);
          },
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
  command->add_flag("--recompute", options->executable.recompute,
                    "keep less for the backward pass, compute it again");
  command->add_flag("--run", options->run, "run it on made-up numbers and measure");
  command->add_flag("--compare", options->compare,
                    "a table of all schedules; with --run measured, in turn");
  command->add_option("--seconds", options->race_seconds, "to measure in, with --compare --run")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  command
      ->add_option("--tune", options->executable.tune.seconds,
                   "seconds to find the fastest plan in by measuring; it is kept for the next time")
      ->check(CLI::Range(0.0, 3600.0));
  command->add_flag("--memory", options->memory, "print what takes up memory, largest first");
  command->add_flag("--print", options->print, "print the plan: cuts, streams and their tasks");
  command->add_option("--from", options->from, "a plan that --print printed, edited or not");
  command->add_option("--check", options->check, "verify such a plan, or its streams alone");
  command->add_option("--trace", options->trace,
                      "write a Chrome trace: the estimate, or with --run what was measured");
  command->add_option("--svg", options->svg, "the same as a picture");
  command->add_flag("--dot", options->tasks_dot, "print the tasks for Graphviz");
  command->add_flag("--network", options->network_dot, "print the network for Graphviz");
  command->footer(
      "Every plan is verified: whatever order the streams run in, no task reads what is not yet\n"
      "written.\n\n"
      "Examples:\n"
      "  turbolstm plan examples/sentiment/sentiment.toml --steps 20\n"
      "  turbolstm plan --cell lstm --steps 100 --batch 32 --run --svg lstm.svg --trace lstm.json\n"
      "  turbolstm plan --cell lstm --layers 4 --batch 2 --compare --run\n"
      "  turbolstm plan --cell gru --layers 2 --tune 5 --print > gru.plan\n"
      "  turbolstm plan --cell gru --layers 2 --from gru.plan --run\n"
      "  turbolstm plan --cell lstm --hidden 64 --beside gru:96 --batch 4 --schedule sequential\n"
      "  turbolstm plan --cell mgu --inference --dot | dot -Tsvg > mgu.svg\n"
      "Open traces in chrome://tracing or https://ui.perfetto.dev. Tuned plans are kept in\n"
      "TURBOLSTM_CACHE, else turbolstm/ in XDG_CACHE_HOME or ~/.cache.");
  command->callback([options] { ShowPlan(*options); });
}

}  // namespace turbolstm::cli
