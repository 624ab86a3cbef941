// How long a step of a persistent loop takes, for every way to deal it out to blocks, beside what
// the formula that chooses among them says. One line of CSV each.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "backend/cuda/runtime_cuda.h"
#include "execution/device_lowering.h"
#include "execution/persistent_match_cuda.h"
#include "harness/cases.h"
#include "harness/gpu_measure.h"
#include "ops/persistent_loop/persistent_loop_cuda.h"
#include "turbolstm_rnn.h"

namespace turbolstm::bench {
namespace {

constexpr int kRuns = 11;

// A loop's values, all zero: its time does not depend on them.
class LoopValues {
 public:
  LoopValues(const cuda::LoopStep& step, int64_t steps, int64_t batch)
      : steps_(steps), batch_(batch) {
    run_.sequences.steps = steps;
    run_.sequences.batch = batch;
    run_.range = {0, steps, false};
    run_.end = steps;
    run_.reverse = !step.x.forward;
    run_.weight = Zeros(step.columns * step.inner * 4);
    run_.weight_stride = step.inner;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const cuda::LoopRows& rows = step.inputs[i];
      const auto bytes = step.units * static_cast<int64_t>(SizeOf(step.program.inputs[i]));
      cuda::RowOperand input;
      input.data = Zeros(Rows(rows) * bytes);
      input.row_bytes = bytes;
      inputs_.push_back(input);
    }
    for (const cuda::LoopRows& rows : step.outputs) {
      cuda::RowOutput output;
      output.row_bytes = step.units * 4;
      output.data = Zeros(Rows(rows) * output.row_bytes);
      outputs_.push_back(output);
    }
    run_.inputs = inputs_;
    run_.outputs = outputs_;
  }

  const cuda::LoopRun& run() const { return run_; }

 private:
  int64_t Rows(const cuda::LoopRows& rows) const {
    if (rows.kind == cuda::RowKind::kShared) return 1;
    if (rows.kind == cuda::RowKind::kBatch) return batch_;
    return (rows.period == 0 ? steps_ : rows.period) * batch_;
  }
  char* Zeros(int64_t bytes) {
    buffers_.emplace_back(static_cast<size_t>(bytes));
    TL_BENCH_CUDA(cudaMemset(buffers_.back().data(), 0, static_cast<size_t>(bytes)));
    return static_cast<char*>(buffers_.back().data());
  }

  int64_t steps_, batch_;
  std::deque<GpuBuffer> buffers_;
  std::vector<cuda::RowOperand> inputs_;
  std::vector<cuda::RowOutput> outputs_;
  cuda::LoopRun run_;
};

std::string_view NameOf(cuda::Exchange exchange) {
  switch (exchange) {
    case cuda::Exchange::kMemory:
      return "memory";
    case cuda::Exchange::kGather:
      return "gather";
    case cuda::Exchange::kScatter:
      return "scatter";
  }
  return "";
}

void TimeTiles(const cuda::LoopStep& step, int64_t steps, int64_t batch, const std::string& what) {
  const cuda::LoopRoom room = cuda::RoomOnThisDevice(cuda::LoopProcessors());
  const LoopValues values(step, steps, batch);
  const cuda::LoopTile chosen = cuda::ChooseTile(step, batch, room);
  const cuda::Stream stream;
  GpuBuffer fault(sizeof(int));
  TL_BENCH_CUDA(cudaMemset(fault.data(), 0, sizeof(int)));
  for (const cuda::LoopTile& tile : cuda::Tiles(step, batch, room)) {
    const cuda::PersistentLoop loop(step, tile);
    GpuBuffer exchange(static_cast<size_t>(tile.exchange_bytes));
    const auto launch = [&] {
      loop.Launch(values.run(), exchange.data(), static_cast<int*>(fault.data()), stream.get());
    };
    const Timing time = MeasureOnGpu(stream.get(), kRuns, {launch}, [] {}).back();
    int lost = 0;
    TL_BENCH_CUDA(cudaMemcpy(&lost, fault.data(), sizeof(int), cudaMemcpyDeviceToHost));
    TL_CHECK(lost == 0, "[persistent_loops] a block waited in vain: {}", what);
    fmt::print("{},{},{},{},{},{},{},{},{},{},{},{},{:.3f},{:.3f},{}\n", what,
               NameOf(tile.exchange), tile.tile_rows, tile.units, tile.together, tile.splits,
               tile.finishing, tile.parts, tile.groups, tile.tiles, tile.held, tile.shared_bytes,
               1e3 * time.median / static_cast<double>(steps),
               1e6 * cuda::PersistentCost(step, tile), tile == chosen ? "chosen" : "");
  }
}

void TimeLoops(const Case& c, Precision precision) {
  const LoweredGraph lowered = LowerForDevice(BuildGraph(c, true), precision);
  std::string_view pass = "forward";
  for (const Group& group : lowered.groups) {
    const auto match = cuda::MatchPersistentLoop(lowered, group);
    if (!match) continue;
    TimeTiles(match->step, c.T, c.B,
              fmt::format("{},{},{},{},{}", c.cell, Name(precision), pass, c.H, c.B));
    pass = "backward";
  }
}

}  // namespace
}  // namespace turbolstm::bench

int main(int argc, char** argv) {
  using namespace turbolstm;
  CLI::App app{"Times every tile of the persistent loops of recurrent layers on an NVIDIA GPU."};
  std::vector<std::string> cells{"lstm"}, precisions{"bf16"};
  std::vector<int64_t> hidden{256, 512, 1024}, batches{16, 64};
  int64_t steps = 256;
  app.add_option("--cell", cells, "cells")->delimiter(',')->capture_default_str();
  app.add_option("--precision", precisions, "tf32, bf16, fp16")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--hidden", hidden, "hidden units")->delimiter(',')->capture_default_str();
  app.add_option("--batch", batches, "sequences")->delimiter(',')->capture_default_str();
  app.add_option("--steps", steps, "time steps")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    fmt::print(
        "cell,precision,pass,hidden,batch,exchange,rows,units,together,splits,finishing,blocks,"
        "groups,"
        "tiles,held,shared_bytes,us_per_step,formula,choice\n");
    for (const std::string& cell : cells) {
      for (const std::string& precision : precisions) {
        for (const int64_t units : hidden) {
          for (const int64_t batch : batches) {
            bench::Case c;
            c.cell = cell;
            c.T = steps;
            c.B = batch;
            c.I = c.H = units;
            c.L = 1;
            bench::TimeLoops(c, PrecisionNamed(precision));
          }
        }
      }
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
