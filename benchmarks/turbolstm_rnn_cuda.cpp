// Our recurrent layers on an NVIDIA GPU. Inputs lie on the device before the clock starts; weights
// are converted and everything else is done within it. Inputs, outputs and their gradients have the
// type of the precision, as in PyTorch and cuDNN.

#include "execution/executable_cuda.h"
#include "harness/gpu_measure.h"
#include "train/training_step_cuda.h"
#include "turbolstm_model.h"
#include "turbolstm_rnn.h"

namespace turbolstm::bench {
namespace {

constexpr int kRuns = 21;

nlohmann::ordered_json Overlapping(const cuda::CudaExecutable& executable) {
  const DeviceSchedule* const schedule = executable.schedule();
  if (!schedule) return nullptr;
  return {{"block", schedule->block},
          {"share", schedule->share},
          {"tasks", schedule->work.tasks.size()},
          {"streams", schedule->streams.streams.size()},
          {"predicted_ms", 1e3 * schedule->seconds}};
}

}  // namespace

void DescribeGpu(Report* report) {
  report->Describe("device", GpuName());
  report->Describe("cuda", GpuRuntime());
}

void MeasureOnDevice(const Run& run, const Options& options, Report* report) {
  const bool training = run.pass == "train";
  cuda::CudaExecutable executable(BuildGraph(*run.what, training),
                                  {.index = 0,
                                   .precision = PrecisionNamed(run.precision),
                                   .boundary = BoundaryType::kOperand,
                                   .recompute = options.recompute,
                                   .schedule = ScheduleNamed(options.schedule),
                                   .in_turns = options.schedule == Name(ScheduleKind::kAuto),
                                   .time_blocks = options.time_blocks});
  const BoundValues values(*run.what, &executable);
  Run named = run;
  named.variant = run.what->uniform_lengths ? "masked" : "";
  const auto step = [&] { executable.Run({.training = training}); };
  const std::vector<Timing> times = MeasureOnGpu(executable.stream().get(), kRuns, {step}, [] {});
  executable.Synchronize();
  report->Add(named, times.back(), static_cast<double>(executable.memory_bytes()) / (1 << 20),
              {{"nodes", executable.recorded_nodes()},
               {"recompute", options.recompute},
               {"overlap", Overlapping(executable)}});
}

// Words and labels are sent anew with every step, as in training; the loss comes back.
void MeasureModelOnDevice(const Run& run, const Options& options, Report* report) {
  BenchedModel benched(run, options);
  cuda::CudaTrainingStep step(benched.model(), benched.parameters(), benched.config(), 0);
  int64_t number = 0;
  const auto train = [&] { step.Train(benched.batch(), number++); };
  const std::vector<Timing> times =
      MeasureOnGpu(step.executable().stream().get(), kRuns, {train}, [] {});
  step.Finish();
  report->Add(run, times.back(), static_cast<double>(step.memory_bytes()) / (1 << 20),
              {{"nodes", step.executable().recorded_nodes()}});
}

}  // namespace turbolstm::bench
