// Where the time of a training step on a GPU goes: how long the device is idle between and within
// replayed steps, and what the host waits for. The step is the one of a classifier of texts.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/gpu_measure.h"
#include "harness/gpu_trace.h"
#include "kernels/cell_kernels.h"
#include "train/training_step_cuda.h"
#include "turbolstm_model.h"

namespace turbolstm::bench {
namespace {

constexpr int kWarmUps = 5;

struct TraceOptions {
  Case what{.name = "",
            .cell = "imdb",
            .T = 400,
            .B = 64,
            .I = 128,
            .H = 128,
            .L = 1,
            .model = "imdb",
            .vocabulary = 20000,
            .classes = 2};
  std::string precision = "bf16";
  int steps = 50;
  double most_overhead = 0;  // per cent; 0: no bound
  bool activities = false;
  std::string trace;
};

// Training that has been recorded and is warm.
class WarmTraining {
 public:
  explicit WarmTraining(const TraceOptions& options)
      : benched_({.what = &options.what, .precision = options.precision, .pass = "step"}),
        step_(benched_.model(), benched_.parameters(), benched_.config(), 0) {
    Run(kWarmUps);
    step_.Finish();
  }

  void Run(int steps) {
    for (int i = 0; i < steps; ++i) step_.Train(benched_.batch(), number_++);
  }
  void Finish() { step_.Finish(); }
  const cuda::Stream& stream() const { return step_.executable().stream(); }
  size_t nodes() const { return step_.executable().recorded_nodes(); }

 private:
  BenchedModel benched_;
  cuda::CudaTrainingStep step_;
  int64_t number_ = 0;
};

// Milliseconds a step on the device, steps queued without waiting for each.
double MillisecondsOfAStep(const TraceOptions& options) {
  WarmTraining training(options);
  cuda::Event begin, end;
  begin.Record(training.stream());
  training.Run(options.steps);
  end.Record(training.stream());
  training.Finish();
  return double{begin.MillisecondsTo(end)} / options.steps;
}

// Per cent of a step in which the device has nothing to do, going by the untraced step's time.
double PrintShares(const TraceOptions& options, double step_ms, size_t nodes,
                   const std::vector<Activity>& activities) {
  const Idleness idleness = IdlenessOf(activities);
  const double busy_ms = idleness.busy_ms / options.steps;
  std::map<std::string, int> waits;
  int kernels = 0, others = 0;
  for (const Activity& a : activities) {
    if (a.kind == Activity::Kind::kWait) {
      ++waits[a.name];
    } else {
      ++(a.kind == Activity::Kind::kKernel ? kernels : others);
    }
  }
  const double overhead = 100 * (1 - busy_ms / step_ms);
  fmt::print("step       {:.4f} ms, not traced, mean of {} queued without waiting; {} nodes\n",
             step_ms, options.steps, nodes);
  fmt::print("traced     {:.4f} ms a step, {} kernels, {} copies and fills a step\n",
             idleness.span_ms / options.steps, kernels / options.steps, others / options.steps);
  fmt::print("busy       {:.4f} ms a step\n", busy_ms);
  fmt::print("idle       {:.2f} % of the traced time between replays, {:.2f} % within them\n",
             100 * idleness.between_ms / idleness.span_ms,
             100 * idleness.within_ms / idleness.span_ms);
  fmt::print("overhead   {:.2f} % of the step that is not traced: 1 - busy / step\n", overhead);
  if (waits.empty()) fmt::print("host       waits for nothing\n");
  for (const auto& [name, count] : waits) {
    fmt::print("host       {}: {:.2f} times a step\n", name,
               static_cast<double>(count) / options.steps);
  }
  return overhead;
}

// What the device does in a step, most time first: times a step, microseconds a step, name.
void PrintActivities(const TraceOptions& options, const std::vector<Activity>& activities) {
  struct Sum {
    double count = 0, microseconds = 0;
    std::string name;
  };
  std::map<std::string, Sum> by_name;
  for (const Activity& a : activities) {
    if (a.kind == Activity::Kind::kWait) continue;
    Sum& sum = by_name[a.name];
    sum.name = a.name;
    sum.count += 1.0 / options.steps;
    sum.microseconds += static_cast<double>(a.end - a.start) / 1e3 / options.steps;
  }
  std::vector<Sum> sums;
  for (auto& [name, sum] : by_name) sums.push_back(std::move(sum));
  std::ranges::sort(sums, std::greater{}, &Sum::microseconds);
  for (const Sum& sum : sums) {
    fmt::print("{:6.1f} {:9.2f} us  {}\n", sum.count, sum.microseconds, sum.name);
  }
}

int Main(const TraceOptions& options) {
  const Case& c = options.what;
  fmt::print("{}\nimdb       T {}, B {}, embedding {}, H {}, L {}, {}\n", GpuName(), c.T, c.B, c.I,
             c.H, c.L, options.precision);
  const double step_ms = MillisecondsOfAStep(options);
  GpuTrace trace;
  WarmTraining training(options);
  trace.Take();
  training.Run(options.steps);
  TL_BENCH_CUDA(cudaStreamSynchronize(training.stream().get()));
  std::vector<Activity> activities = trace.Take();
  training.Finish();
  // The wait above is not the training's.
  const auto last_wait = std::find_if(activities.rbegin(), activities.rend(), [](const auto& a) {
    return a.kind == Activity::Kind::kWait && a.name == "wait for a stream";
  });
  if (last_wait != activities.rend()) activities.erase(std::next(last_wait).base());
  TL_CHECK(!activities.empty(), "[cupti] nothing was recorded");
  const double overhead = PrintShares(options, step_ms, training.nodes(), activities);
  if (options.activities) PrintActivities(options, activities);
  if (!options.trace.empty()) WriteChromeTrace(activities, options.trace);
  if (options.most_overhead == 0 || overhead <= options.most_overhead) return EXIT_SUCCESS;
  fmt::print("the overhead is above {} %\n", options.most_overhead);
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace turbolstm::bench

int main(int argc, char** argv) {
  using namespace turbolstm::bench;
  TraceOptions options;
  CLI::App app("Where the time of a training step on a GPU goes");
  app.add_option("--steps", options.what.T, "of time")->capture_default_str();
  app.add_option("--batch", options.what.B)->capture_default_str();
  app.add_option("--embedding", options.what.I)->capture_default_str();
  app.add_option("--hidden", options.what.H)->capture_default_str();
  app.add_option("--layers", options.what.L)->capture_default_str();
  app.add_option("--precision", options.precision, "fp32, tf32, bf16 or fp16")
      ->capture_default_str();
  app.add_option("--runs", options.steps, "steps of training")->capture_default_str();
  app.add_option("--most-overhead", options.most_overhead, "fail above so many per cent");
  app.add_flag("--kernels", options.activities, "print the time of every kernel");
  app.add_option("--trace", options.trace, "file for a Chrome trace");
  CLI11_PARSE(app, argc, argv);
  turbolstm::RegisterCellKernels();
  turbolstm::RegisterDeviceCellKernels();
  try {
    return Main(options);
  } catch (const turbolstm::Error& error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
