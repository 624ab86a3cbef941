// Our recurrent layers at the shapes of shapes.json: forward for inference, and a training step
// (forward, backward to every weight and the input). Weights count as changed before every
// training step, as an optimiser changes them: packing them anew is part of the time.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/philox.h"
#include "graph/autodiff.h"
#include "harness/measure.h"
#include "harness/report.h"
#include "kernels/cell_kernels.h"
#include "nn/recurrent.h"
#include "plan/executable.h"

namespace turbolstm::bench {
namespace {

Graph BuildGraph(const Case& c, bool training) {
  Model model;
  const Value x = model.builder().Input("x", Domain::kStep, {c.I});
  RecurrentOptions options;
  options.cell = c.cell;
  options.size.input = c.I;
  options.size.hidden = c.H;
  options.layers = c.L;
  options.bidirectional = c.bidirectional;
  const Value y = Recurrent(model, "rnn", x, options).output;
  model.graph().AddOutput("y", y.id());
  if (!training) return model.graph();
  const Value dy = model.builder().Input("dy", Domain::kStep, {c.H * c.directions()});
  std::vector<NodeId> wrt = {x.id()};
  for (const ParameterSpec& spec : model.parameters()) {
    wrt.push_back(model.graph().Find(spec.name));
  }
  const std::vector<NodeId> gradients = Gradients(&model.graph(), {{y.id(), dy.id()}}, wrt);
  for (size_t i = 0; i < wrt.size(); ++i) {
    const std::string name = model.graph().node(wrt[i]).name;
    model.graph().AddOutput("gradient." + name, gradients[i]);
  }
  return model.graph();
}

class Network {
 public:
  Network(const Case& c, const std::string& precision, bool training, int threads)
      : executable_(BuildGraph(c, training),
                    {.precision = PrecisionNamed(precision), .streams = threads}),
        training_(training) {
    const std::vector<int64_t> wide = c.Lengths();
    const std::vector<int32_t> lengths(wide.begin(), wide.end());
    if (c.uniform_lengths) {
      executable_.SetShape(c.T, c.B, lengths);
    } else {
      executable_.SetShape(c.T, c.B);
    }
    uint32_t site = 0;
    for (const NamedView& input : executable_.lowered().inputs) {
      int64_t elements = input.view.width;
      if (input.domain == Domain::kStep) elements *= c.T * c.B;
      const float scale = input.domain == Domain::kStatic ? 0.1f : 1.0f;
      std::vector<float>& values = values_[input.name];
      values.reserve(static_cast<size_t>(elements));
      const RandomSite random{.seed = 1, .site = site++};
      for (int64_t i = 0; i < elements; ++i) {
        values.push_back(scale * (2 * random.Uniform(static_cast<uint64_t>(i)) - 1));
      }
      executable_.Bind(input.name, values);
    }
  }

  void Step() {
    if (training_) executable_.ParametersChanged();
    executable_.Run({.training = training_});
  }

 private:
  std::map<std::string, std::vector<float>> values_;
  Executable executable_;
  bool training_;
};

// Loads code before anything counts.
void WarmUp(int threads) {
  for (const char* cell : {"lstm", "gru"}) {
    const Case tiny{.name = "tiny", .cell = cell, .T = 2, .B = 2, .I = 8, .H = 8};
    Network(tiny, "fp32", true, threads).Step();
  }
}

void MeasureCase(Run run, const Options& options, Report* report) {
  run.variant = run.what->uniform_lengths ? "packed" : "";
  const bool training = run.pass == "train";
  const PeakMemory memory;
  Network network(*run.what, run.precision, training, options.threads);
  for (int i = 0; i < 3; ++i) network.Step();
  const double peak = training ? memory.Mebibytes() : 0;
  report->Add(run, Measure([&] { network.Step(); }, options.min_seconds), peak);
}

}  // namespace
}  // namespace turbolstm::bench

int main(int argc, char** argv) {
  using namespace turbolstm::bench;
  const Options options = ParseOptions(argc, argv, "TurboLSTM's recurrent layers");
  turbolstm::RegisterCellKernels();
  Report report("TurboLSTM", TL_VERSION, options.threads);
  if (options.peak) {
    report.Write(options.json);
  } else {
    WarmUp(options.threads);
    MeasureEach(options, &report, [&](const Run& run) { MeasureCase(run, options, &report); });
  }
  return 0;
}
