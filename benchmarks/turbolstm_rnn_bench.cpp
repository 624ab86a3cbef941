// Our recurrent layers at the shapes of shapes.json or shapes_gpu.json: forward for inference, and
// a training step (forward, backward to every weight and the input); and the training steps of the
// whole models that shapes_gpu.json lists. Weights count as changed before every training step, as
// an optimiser changes them: packing them anew is part of the time.

#include <cstdlib>
#include <iostream>

#include "base/error.h"
#include "harness/measure.h"
#include "harness/report.h"
#include "kernels/cell_kernels.h"
#include "plan/executable.h"
#include "turbolstm_model.h"
#include "turbolstm_rnn.h"

namespace turbolstm::bench {
namespace {

// Loads code before anything counts.
void WarmUp(int threads) {
  for (const char* cell : {"lstm", "gru"}) {
    const Case tiny{.name = "tiny", .cell = cell, .T = 2, .B = 2, .I = 8, .H = 8};
    Executable executable(BuildGraph(tiny, true), {.streams = threads});
    const BoundValues values(tiny, &executable);
    executable.Run({.training = true});
  }
}

// Without what the caller binds.
double Mebibytes(const Executable& executable) {
  return static_cast<double>(executable.memory_bytes()) / (1 << 20);
}

void MeasureOnCpu(const Run& asked, const Options& options, Report* report) {
  Run run = asked;
  run.variant = run.what->uniform_lengths ? "packed" : "";
  const bool training = run.pass == "train";
  const PeakMemory memory;
  Executable executable(BuildGraph(*run.what, training),
                        {.precision = PrecisionNamed(run.precision),
                         .streams = options.threads,
                         .schedule = ScheduleNamed(options.schedule),
                         .recompute = options.recompute});
  const BoundValues values(*run.what, &executable);
  const auto step = [&] {
    if (training) executable.ParametersChanged();
    executable.Run({.training = training});
  };
  for (int i = 0; i < 3; ++i) step();
  const double peak = training ? memory.Mebibytes() : 0;
  report->Add(run, Measure(step, options.min_seconds), peak,
              {{"recompute", options.recompute},
               {"schedule", options.schedule},
               {"planned_mib", Mebibytes(executable)}});
}

void Main(const Options& options) {
  Report report("TurboLSTM", TL_VERSION, options.threads);
  if (options.peak) return report.Write(options.json);
  const bool gpu = options.device == "cuda";
  gpu ? DescribeGpu(&report) : WarmUp(options.threads);
  report.Describe("models", true);
  MeasureEach(options, &report, [&](const Run& run) {
    const bool model = !run.what->model.empty();
    if (gpu) return (model ? MeasureModelOnDevice : MeasureOnDevice)(run, options, &report);
    (model ? MeasureModelOnCpu : MeasureOnCpu)(run, options, &report);
  });
}

}  // namespace
}  // namespace turbolstm::bench

int main(int argc, char** argv) {
  using namespace turbolstm::bench;
  Offer offer{{"fp32", "tf32", "bf16", "fp16", "bf16x6"}, {"cpu", "cuda"}, true, true};
  for (const turbolstm::ScheduleKind kind : turbolstm::kScheduleKinds) {
    offer.schedules.emplace_back(turbolstm::Name(kind));
  }
  const Options options = ParseOptions(argc, argv, "TurboLSTM's recurrent layers", offer);
  turbolstm::RegisterCellKernels();
  turbolstm::RegisterDeviceCellKernels();
  try {
    Main(options);
  } catch (const turbolstm::Error& error) {
    std::cerr << error.what() << '\n';
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
