// However blocks of a persistent loop hand values to each other, they compute the same, launch
// after launch.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/check_cuda.h"
#include "backend/cuda/runtime_cuda.h"
#include "backend/cuda/testing/gpu.h"
#include "execution/device_lowering.h"
#include "execution/loop_tuning_cuda.h"
#include "execution/persistent_match_cuda.h"
#include "execution/testing/numbers_cuda.h"
#include "ops/persistent_loop/persistent_loop_cuda.h"
#include "plan/recurrent_graphs.h"

namespace turbolstm::cuda {
namespace {

struct LoopShape {
  int64_t hidden, steps, batch;
  bool ragged = false;
  double resets = 0;
  bool initial = false;
};

// A loop's values in the device's memory, random ones.
class LoopData {
 public:
  LoopData(const LoopStep& step, const LoopShape& shape) : step_(step), shape_(shape) {
    run_.range = {0, shape.steps, shape.ragged};
    run_.end = shape.steps;
    run_.reverse = !step.x.forward;
    run_.sequences.steps = shape.steps;
    run_.sequences.batch = shape.batch;
    SetSequences();
    run_.weight = Random(step.columns, step.inner, step.operand, 1 / std::sqrt(step.inner));
    run_.weight_stride = step.inner;
    for (size_t i = 0; i < step.inputs.size(); ++i) inputs_.push_back(Input(i));
    if (step.x.has_init && shape.initial) {
      run_.x.init = Random(shape.batch, step.inner, step.operand, 1);
      run_.x.init_row_bytes = step.inner * static_cast<int64_t>(SizeOf(step.operand));
    }
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const auto size = static_cast<int64_t>(SizeOf(OutputType(step, i)));
      RowOutput output;
      output.row_bytes = step.units * size;
      output.data = reinterpret_cast<char*>(
          Keep(static_cast<size_t>(Rows(step.outputs[i]) * output.row_bytes)).data());
      outputs_.push_back(output);
    }
    run_.inputs = inputs_;
    run_.outputs = outputs_;
  }

  // All outputs that lie in memory, after a run.
  std::vector<double> Run(const LoopTile& tile) {
    for (size_t i = 0; i < outputs_.size(); ++i) {
      TL_CUDA_CHECK(cudaMemset(outputs_[i].data, 0xff, OutputSize(i)));
    }
    const Stream stream;
    const DeviceBuffer exchange(static_cast<size_t>(tile.exchange_bytes), "exchange");
    DeviceBuffer fault(sizeof(int), "fault");
    fault.Clear();
    const PersistentLoop loop(step_, tile);  // compiled once for a tile
    loop.Launch(run_, exchange.data(), reinterpret_cast<int*>(fault.data()), stream.get());
    TL_CUDA_CHECK(cudaStreamSynchronize(stream.get()));
    int lost = 0;
    TL_CUDA_CHECK(cudaMemcpy(&lost, fault.data(), sizeof(lost), cudaMemcpyDeviceToHost));
    EXPECT_EQ(lost, 0) << "waited in vain";
    return Outputs();
  }

 private:
  DeviceBuffer& Keep(size_t bytes) {
    return buffers_.emplace_back(std::max<size_t>(bytes, 16), "values");
  }
  int64_t Rows(const LoopRows& rows) const {
    if (rows.kind == RowKind::kShared) return 1;
    if (rows.kind == RowKind::kBatch) return shape_.batch;
    return (rows.period == 0 ? shape_.steps : rows.period) * shape_.batch;
  }
  size_t OutputSize(size_t i) const {
    return static_cast<size_t>(Rows(step_.outputs[i]) * outputs_[i].row_bytes);
  }

  const char* Upload(const std::vector<std::byte>& bytes) {
    const DeviceBuffer& buffer = Keep(bytes.size());
    TL_CUDA_CHECK(cudaMemcpy(buffer.data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
    return reinterpret_cast<const char*>(buffer.data());
  }
  const char* Random(int64_t rows, int64_t width, DType dtype, double scale) {
    const size_t size = SizeOf(dtype);
    std::vector<std::byte> bytes(static_cast<size_t>(rows * width) * size);
    std::uniform_real_distribution<double> number(-scale, scale);
    for (size_t i = 0; i < bytes.size(); i += size) Encode(number(random_), dtype, &bytes[i]);
    return Upload(bytes);
  }

  RowOperand Input(size_t i) {
    const LoopRows& rows = step_.inputs[i];
    const DType dtype = step_.program.inputs[i];
    RowOperand input;
    input.row_bytes = step_.units * static_cast<int64_t>(SizeOf(dtype));
    input.data = Random(Rows(rows), step_.units, dtype, 1);
    if (rows.has_init && shape_.initial) {
      input.init = Random(shape_.batch, step_.units, dtype, 1);
      input.init_row_bytes = input.row_bytes;
    }
    return input;
  }

  // Longest first.
  void SetSequences() {
    if (shape_.ragged) {
      std::vector<std::byte> lengths(static_cast<size_t>(shape_.batch) * sizeof(int32_t));
      for (int64_t b = 0; b < shape_.batch; ++b) {
        const int64_t length = shape_.steps * (shape_.batch - b) / shape_.batch;
        Encode(static_cast<double>(length), DType::kInt32, &lengths[static_cast<size_t>(b) * 4]);
      }
      run_.sequences.lengths = reinterpret_cast<const int*>(Upload(lengths));
    }
    if (shape_.resets > 0) {
      std::vector<std::byte> resets(static_cast<size_t>(shape_.steps * shape_.batch));
      std::bernoulli_distribution is_reset(shape_.resets);
      for (std::byte& reset : resets) reset = std::byte{is_reset(random_)};
      run_.sequences.resets = reinterpret_cast<const unsigned char*>(Upload(resets));
    }
  }

  std::vector<double> Outputs() const {
    std::vector<double> all;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!IsStored(step_, i)) continue;
      std::vector<std::byte> bytes(OutputSize(i));
      TL_CUDA_CHECK(
          cudaMemcpy(bytes.data(), outputs_[i].data, bytes.size(), cudaMemcpyDeviceToHost));
      const DType dtype = OutputType(step_, i);
      for (size_t k = 0; k < bytes.size(); k += SizeOf(dtype)) {
        all.push_back(Decode(&bytes[k], dtype));
      }
    }
    return all;
  }

  const LoopStep& step_;
  const LoopShape shape_;
  std::mt19937_64 random_{7};
  std::vector<DeviceBuffer> buffers_;
  std::vector<RowOperand> inputs_;
  std::vector<RowOutput> outputs_;
  LoopRun run_;
};

double LargestDifference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : HUGE_VAL;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double difference = std::abs(a[i] - b[i]) / std::max(1.0, std::abs(a[i]));
    largest = difference <= largest ? largest : std::isnan(difference) ? HUGE_VAL : difference;
  }
  return largest;
}

struct LoopCase {
  std::string cell;
  Precision precision;
};
std::string NameOf(const LoopCase& c) {
  return c.cell + "_" + std::string(Name(c.precision));
}
// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest finds it by this name.
void PrintTo(const LoopCase& c, std::ostream* out) {
  *out << NameOf(c);
}

class LoopExchangesOnGpu : public ::testing::TestWithParam<LoopCase> {};

LoweredGraph LayerOf(const LoopCase& c, int64_t hidden) {
  RecurrentOptions options = SmallOptions(c.cell);
  options.size.hidden = hidden;
  return LowerForDevice(WithGradients(RecurrentGraph(options)), c.precision);
}

// One tile for each exchange.
std::vector<LoopTile> TilesOf(const LoopStep& step, int64_t batch) {
  std::vector<LoopTile> tiles;
  for (const LoopTile& tile : Tiles(step, batch, RoomOnThisDevice(LoopProcessors()))) {
    const bool first = std::none_of(tiles.begin(), tiles.end(), [&](const LoopTile& other) {
      return other.exchange == tile.exchange && other.units == tile.units;
    });
    if (first) tiles.push_back(tile);
  }
  return tiles;
}

// Sums are added up in different orders, and what is rounded differs then.
TEST_P(LoopExchangesOnGpu, ComputeTheSame) {
  SKIP_WITHOUT_GPU();
  const double tolerance = GetParam().precision == Precision::kBFloat16 ? 5e-2 : 5e-3;
  for (const LoopShape& shape :
       {LoopShape{40, 5, 1, false, 0.2}, LoopShape{100, 7, 21, true},
        LoopShape{128, 9, 140, true, 0.2, true}, LoopShape{256, 12, 70, false, 0, true},
        LoopShape{512, 6, 40, true, 0.1, true}}) {
    const LoweredGraph graph = LayerOf(GetParam(), shape.hidden);
    for (const Group& group : graph.groups) {
      const auto match = MatchPersistentLoop(graph, group);
      if (!match) continue;
      LoopData data(match->step, shape);
      std::vector<double> first;
      for (const LoopTile& tile : TilesOf(match->step, shape.batch)) {
        SCOPED_TRACE(fmt::format(
            "{} units, {} steps, {} sequences; {}: exchange {}, {} units of a "
            "block, {} rows, {} tiles",
            shape.hidden, shape.steps, shape.batch, match->step.x.forward ? "forward" : "backward",
            static_cast<int>(tile.exchange), tile.units, tile.tile_rows, tile.tiles));
        const std::vector<double> outputs = data.Run(tile);
        if (first.empty()) first = outputs;
        EXPECT_LE(LargestDifference(first, outputs), tolerance);
      }
      EXPECT_FALSE(first.empty());
    }
  }
}

// Loops of several shapes and kinds in turn: what one leaves behind on the device disturbs no
// other.
TEST(LoopsOnGpu, ThousandsOfLaunchesGiveTheSameBits) {
  SKIP_WITHOUT_GPU();
  constexpr int kLaunches = 10000;
  const LoweredGraph graphs[] = {LayerOf({"lstm", Precision::kBFloat16}, 40),
                                 LayerOf({"gru", Precision::kBFloat16}, 130)};
  std::deque<LoopMatch> matches;
  std::deque<LoopData> loops;
  std::vector<std::pair<LoopData*, LoopTile>> runs;
  for (const LoweredGraph& graph : graphs) {
    for (const Group& group : graph.groups) {
      auto match = MatchPersistentLoop(graph, group);
      if (!match) continue;
      matches.push_back(*std::move(match));
      for (const LoopShape& shape : {LoopShape{0, 3, 5, true, 0.3}, LoopShape{0, 7, 40, true}}) {
        loops.emplace_back(matches.back().step, shape);
        for (const LoopTile& tile : TilesOf(matches.back().step, shape.batch)) {
          runs.emplace_back(&loops.back(), tile);
        }
      }
    }
  }
  std::vector<std::vector<double>> first(runs.size());
  std::mt19937_64 random(11);
  for (int i = 0; i < kLaunches; ++i) {
    const size_t r = random() % runs.size();
    const std::vector<double> outputs = runs[r].first->Run(runs[r].second);
    if (first[r].empty()) first[r] = outputs;
    ASSERT_EQ(first[r], outputs) << "launch " << i << " of loop " << r;
  }
}

TEST(LoopsOnGpu, WhatIsTunedIsOneOfTheTilesAndIsKept) {
  SKIP_WITHOUT_GPU();
  const LoweredGraph graph = LayerOf({"lstm", Precision::kBFloat16}, 72);
  std::optional<LoopMatch> match;
  for (const Group& group : graph.groups) {
    if (!match) match = MatchPersistentLoop(graph, group);
  }
  ASSERT_TRUE(match);
  const LoopRoom room = RoomOnThisDevice(LoopProcessors());
  const LoopTile tuned = TunedTile(match->step, 24, room, 0);
  const std::vector<LoopTile> tiles = Tiles(match->step, 24, room);
  EXPECT_NE(std::ranges::find(tiles, tuned), tiles.end());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(TunedTile(match->step, 24, room, 0), tuned);
}

INSTANTIATE_TEST_SUITE_P(Cells, LoopExchangesOnGpu,
                         ::testing::Values(LoopCase{"lstm", Precision::kBFloat16},
                                           LoopCase{"lstm", Precision::kTf32},
                                           LoopCase{"gru", Precision::kFloat16},
                                           LoopCase{"gru", Precision::kTf32},
                                           LoopCase{"rnn_tanh", Precision::kFloat16},
                                           LoopCase{"peephole_lstm", Precision::kFloat16}),
                         [](const auto& tested) { return NameOf(tested.param); });

}  // namespace
}  // namespace turbolstm::cuda
