// cuDNN's recurrent layers at the shapes of shapes_gpu.json with each of its four algorithms, eager
// and captured in a CUDA graph: variants "standard/eager", "standard/graph", "persist_static/..."
// and so on. Weights are packed, workspace and reserve allocated before the clock starts, and the
// gradients of the weights are cleared outside the timed part.

#include <cudnn.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "baselines/cudnn_network.h"
#include "harness/gpu_measure.h"
#include "harness/report.h"

namespace turbolstm::bench {
namespace {

struct Algorithm {
  cudnnRNNAlgo_t value;
  const char* name;
};

// STANDARD first: the others are judged by it.
constexpr Algorithm kAlgorithms[] = {
    {CUDNN_RNN_ALGO_STANDARD, "standard"},
    {CUDNN_RNN_ALGO_PERSIST_STATIC, "persist_static"},
    {CUDNN_RNN_ALGO_PERSIST_DYNAMIC, "persist_dynamic"},
    {CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, "persist_static_small_h"},
};

constexpr int kRuns = 21;
// What takes this many times longer than STANDARD captured cannot be the fastest, and is measured
// with fewer runs.
constexpr double kHopeless = 2;
constexpr int kRunsOfHopeless = 5;
// PERSIST_DYNAMIC is compiled for the batch, which takes seconds where it is large. There it was
// never faster than STANDARD captured in any type (README.md of the benchmarks).
constexpr int64_t kMostRowsOfDynamic = 32;
// A persistent algorithm whose time is this close to STANDARD's is marked.
constexpr double kSame = 0.05;

using Kernels = std::map<std::string, int>;
using Parts = std::vector<std::function<void()>>;

std::string Join(const Kernels& kernels) {
  std::string text;
  for (const auto& [name, count] : kernels) {
    text += fmt::format("{}{} x{}", text.empty() ? "" : "; ", name, count);
  }
  return text;
}

// What STANDARD did in the case at hand.
struct Standard {
  Kernels kernels;
  double graph_ms = 0, eager_ms = 0;
};

class Measurement {
 public:
  Measurement(const CudnnContext& context, Run run, Report* report)
      : context_(context), run_(std::move(run)), report_(report), training_(run_.pass == "train") {}

  void MeasureAlgorithms() {
    for (const Algorithm& algorithm : kAlgorithms) {
      try {
        MeasureAlgorithm(algorithm);
      } catch (const Error& error) {
        cudaGetLastError();
        AddError(algorithm, error.what());
      }
    }
  }

 private:
  Run Named(const Algorithm& algorithm, const char* mode) const {
    Run named = run_;
    named.variant = fmt::format("{}/{}", algorithm.name, mode);
    return named;
  }

  void AddError(const Algorithm& algorithm, const std::string& error) {
    for (const char* mode : {"graph", "eager"}) report_->AddError(Named(algorithm, mode), error);
  }

  void MeasureAlgorithm(const Algorithm& algorithm) {
    const bool standard = algorithm.value == CUDNN_RNN_ALGO_STANDARD;
    if (algorithm.value == CUDNN_RNN_ALGO_PERSIST_DYNAMIC) {
      TL_CHECK(run_.what->B <= kMostRowsOfDynamic, "not run: B > {}", kMostRowsOfDynamic);
    }
    CudnnNetwork network(context_, *run_.what, CudnnPrecisionNamed(run_.precision), algorithm.value,
                         training_);
    network.CheckOutputs();
    Parts eager = {[&] { network.Forward(); }};
    if (training_) {
      eager.push_back([&] { network.BackwardData(); });
      eager.push_back([&] { network.BackwardWeights(); });
    }
    GpuGraph whole(context_.stream(), [&] {
      for (const auto& part : eager) part();
    });
    kernels_ = whole.Kernels();
    if (standard) standard_.kernels = kernels_;
    if (!standard && kernels_ == standard_.kernels) {
      return AddError(algorithm, "silent fall-back: launches STANDARD's kernels");
    }
    const double graph_ms = MeasureGraph(algorithm, &network, &whole, eager);
    if (standard) {
      standard_.graph_ms = graph_ms;
      standard_.eager_ms = MeasureEager(algorithm, &network, eager);
    } else if (graph_ms < kHopeless * standard_.graph_ms) {
      MeasureEager(algorithm, &network, eager);
    } else {
      const double times = graph_ms / standard_.graph_ms;
      report_->AddError(Named(algorithm, "eager"),
                        fmt::format("not run: captured {:.1f} times slower than STANDARD", times));
    }
  }

  double MeasureGraph(const Algorithm& algorithm, CudnnNetwork* network, GpuGraph* whole,
                      const Parts& eager) {
    const std::vector<Timing> times = Time(network, {[&] { whole->Launch(); }});
    nlohmann::ordered_json more = {{"kernels", Join(kernels_)}};
    const bool hopeless = times.back().runs < kRuns;
    if (eager.size() > 1 && !hopeless) {
      std::vector<std::unique_ptr<GpuGraph>> graphs;
      Parts parts;
      for (const auto& part : eager) {
        graphs.push_back(std::make_unique<GpuGraph>(context_.stream(), part));
        parts.push_back([graph = graphs.back().get()] { graph->Launch(); });
      }
      AddParts(Time(network, parts), &more);
    }
    Add(algorithm, "graph", *network, times.back(), standard_.graph_ms, std::move(more));
    return times.back().median;
  }

  double MeasureEager(const Algorithm& algorithm, CudnnNetwork* network, const Parts& eager) {
    const std::vector<Timing> times = Time(network, eager);
    nlohmann::ordered_json more = nlohmann::ordered_json::object();
    if (eager.size() > 1) AddParts(times, &more);
    Add(algorithm, "eager", *network, times.back(), standard_.eager_ms, std::move(more));
    return times.back().median;
  }

  std::vector<Timing> Time(CudnnNetwork* network, const Parts& parts) {
    const auto clear = [&] {
      if (training_) network->ClearWeightGradients();
    };
    int runs = kRuns;
    if (standard_.graph_ms > 0) {
      const double once = MeasureOnGpu(context_.stream(), 1, parts, clear).back().median;
      if (once > kHopeless * standard_.graph_ms) runs = kRunsOfHopeless;
    }
    return MeasureOnGpu(context_.stream(), runs, parts, clear);
  }

  static void AddParts(const std::vector<Timing>& times, nlohmann::ordered_json* more) {
    (*more)["forward_ms"] = times[0].median;
    (*more)["backward_data_ms"] = times[1].median;
    (*more)["backward_weights_ms"] = times[2].median;
  }

  // `standard_ms`: STANDARD's time in this mode, 0 while it is measured itself.
  void Add(const Algorithm& algorithm, const char* mode, const CudnnNetwork& network,
           const Timing& timing, double standard_ms, nlohmann::ordered_json more) {
    more["reserve_bytes"] = network.reserve_bytes();
    more["workspace_bytes"] = network.workspace_bytes();
    more["output_bytes"] = network.output_bytes();
    if (standard_ms > 0 && std::abs(timing.median / standard_ms - 1) < kSame) {
      more["note"] = "within 5 % of STANDARD's time, with other kernels";
    }
    constexpr double kMebibyte = 1024 * 1024;
    const double memory = training_ ? static_cast<double>(network.total_bytes()) / kMebibyte : 0;
    report_->Add(Named(algorithm, mode), timing, memory, more);
  }

  const CudnnContext& context_;
  Run run_;
  Report* report_;
  bool training_;
  Kernels kernels_;
  Standard standard_;
};

}  // namespace
}  // namespace turbolstm::bench

int main(int argc, char** argv) {
  using namespace turbolstm::bench;
  const Offer offer = {.precisions = {"fp32", "tf32", "bf16", "fp16"}, .devices = {"cuda"}};
  const Options options = ParseOptions(argc, argv, "cuDNN's recurrent layers", offer);
  try {
    const auto version = cudnnGetVersion();
    Report report("cuDNN",
                  fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100),
                  options.threads);
    report.Describe("device", GpuName());
    report.Describe("driver_interface", GpuDriverInterface());
    report.Describe("cuda", GpuRuntime());
    const CudnnContext context;
    MeasureEach(options, &report,
                [&](const Run& run) { Measurement(context, run, &report).MeasureAlgorithms(); });
  } catch (const turbolstm::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
