// Every way to deal out a persistent loop computes the same, and the same bits when it runs again
// in blocks of steps.

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <string>
#include <vector>

#include "backend/cuda/check_cuda.h"
#include "backend/cuda/runtime_cuda.h"
#include "base/half_numbers.h"
#include "execution/device_lowering.h"
#include "execution/gpu_tolerance.h"
#include "execution/persistent_match_cuda.h"
#include "ops/persistent_loop/persistent_loop_cuda.h"
#include "plan/recurrent_graphs.h"
#include "testing/dice.h"

namespace turbolstm {
namespace {

constexpr int64_t kSteps = 6;
constexpr int kPoison = 0x7f;

// A loop with memory of its own: random numbers to read, poison where it writes.
class LoopOnDevice {
 public:
  LoopOnDevice(const cuda::LoopStep& step, int64_t batch) : step_(step), batch_(batch) {
    run_.sequences.steps = kSteps;
    run_.sequences.batch = batch;
    run_.range = {0, kSteps, false};
    run_.reverse = !step.x.forward;
    run_.weight = Random(step.columns * step.inner, step.operand,
                         1 / std::sqrt(static_cast<double>(step.inner)));
    run_.weight_stride = step.inner;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      cuda::RowOperand input;
      input.data =
          static_cast<char*>(Random(Rows(step.inputs[i]) * step.units, step.program.inputs[i], 1));
      input.row_bytes = step.units * static_cast<int64_t>(SizeOf(step.program.inputs[i]));
      inputs_.push_back(input);
    }
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      cuda::RowOutput output;
      output.row_bytes = step.units * static_cast<int64_t>(SizeOf(cuda::OutputType(step, i)));
      buffers_.emplace_back(static_cast<size_t>(Rows(step.outputs[i]) * output.row_bytes),
                            "output");
      output.data = reinterpret_cast<char*>(buffers_.back().data());
      outputs_.push_back(output);
      written_.push_back(&buffers_.back());
    }
    run_.inputs = inputs_;
    run_.outputs = outputs_;
  }

  // All that the loop writes to memory step by step, when it runs up to each of these steps in
  // turn.
  std::vector<std::vector<float>> Run(const cuda::LoopTile& tile,
                                      const std::vector<int64_t>& ends = {kSteps}) {
    const cuda::PersistentLoop loop(step_, tile);
    const cuda::DeviceBuffer exchange(static_cast<size_t>(tile.exchange_bytes), "exchange");
    cuda::DeviceBuffer fault(sizeof(int), "fault");
    fault.Clear();
    for (const cuda::DeviceBuffer* output : written_) {
      TL_CUDA_CHECK(cudaMemset(output->data(), kPoison, output->size()));
    }
    TL_CUDA_CHECK(cudaDeviceSynchronize());  // the stream does not wait for what others wrote
    const cuda::Stream stream;
    const cuda::DeviceBuffer carry(static_cast<size_t>(tile.carry_bytes), "carried values");
    run_.carry = ends.size() > 1 ? carry.data() : nullptr;
    run_.begin = 0;
    for (const int64_t end : ends) {
      run_.end = end;
      loop.Launch(run_, exchange.data(), reinterpret_cast<int*>(fault.data()), stream.get());
      run_.begin = end;
    }
    TL_CUDA_CHECK(cudaDeviceSynchronize());
    int lost = 0;
    TL_CUDA_CHECK(cudaMemcpy(&lost, fault.data(), sizeof(int), cudaMemcpyDeviceToHost));
    EXPECT_EQ(lost, 0) << "a block waited in vain";
    std::vector<std::vector<float>> values;
    for (size_t i = 0; i < written_.size(); ++i) {
      if (cuda::IsStored(step_, i)) values.push_back(Read(*written_[i], OutputType(step_, i)));
    }
    return values;
  }

 private:
  int64_t Rows(const cuda::LoopRows& rows) const {
    if (rows.kind == cuda::RowKind::kShared) return 1;
    if (rows.kind == cuda::RowKind::kBatch) return batch_;
    return (rows.period == 0 ? kSteps : rows.period) * batch_;
  }

  void* Random(int64_t count, DType dtype, double scale) {
    const auto n = static_cast<size_t>(count);
    buffers_.emplace_back(n * SizeOf(dtype), "random numbers");
    std::vector<float> wide(n);
    for (float& value : wide) value = static_cast<float>(dice_.Real(-scale, scale));
    std::vector<uint16_t> narrow(n);
    const bool is_wide = dtype == DType::kFloat32;
    if (!is_wide) RoundToHalf(wide, dtype, narrow);
    const void* const from = is_wide ? static_cast<const void*>(wide.data()) : narrow.data();
    TL_CUDA_CHECK(
        cudaMemcpy(buffers_.back().data(), from, n * SizeOf(dtype), cudaMemcpyHostToDevice));
    return buffers_.back().data();
  }

  static std::vector<float> Read(const cuda::DeviceBuffer& buffer, DType dtype) {
    const size_t n = buffer.size() / SizeOf(dtype);
    std::vector<float> values(n);
    std::vector<uint16_t> narrow(n);
    const bool is_wide = dtype == DType::kFloat32;
    void* const to = is_wide ? static_cast<void*>(values.data()) : narrow.data();
    TL_CUDA_CHECK(cudaMemcpy(to, buffer.data(), buffer.size(), cudaMemcpyDeviceToHost));
    if (!is_wide) WidenHalf(narrow, dtype, values);
    return values;
  }

  const cuda::LoopStep& step_;
  int64_t batch_;
  Dice dice_{5};
  std::deque<cuda::DeviceBuffer> buffers_;
  std::vector<cuda::RowOperand> inputs_;
  std::vector<cuda::RowOutput> outputs_;
  std::vector<const cuda::DeviceBuffer*> written_;
  cuda::LoopRun run_;
};

// The root of the mean square of what differs, by that of what is.
double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, square = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double apart = double{a[i]} - b[i];
    difference += apart * apart;
    square += double{b[i]} * b[i];
  }
  return std::sqrt(difference / std::max(square, 1e-30));
}

struct TileCase {
  std::string cell;
  Precision precision;
  int64_t hidden;
};
std::string NameOf(const TileCase& c) {
  return fmt::format("{}_{}_{}", c.cell, Name(c.precision), c.hidden);
}
// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest finds it by this name.
void PrintTo(const TileCase& c, std::ostream* out) {
  *out << NameOf(c);
}

class PersistentTilesOnGpu : public ::testing::TestWithParam<TileCase> {};

TEST_P(PersistentTilesOnGpu, AllComputeTheSame) {
  SKIP_WITHOUT_GPU();
  const auto& [cell, precision, hidden] = GetParam();
  RecurrentOptions options = SmallOptions(cell);
  options.size.hidden = hidden;
  const LoweredGraph graph = LowerForDevice(WithGradients(RecurrentGraph(options)), precision);
  for (const Group& group : graph.groups) {
    const auto match = cuda::MatchPersistentLoop(graph, group);
    if (!match) continue;
    for (const int64_t batch : {1, 16, 65, 257}) {
      LoopOnDevice loop(match->step, batch);
      std::vector<std::vector<float>> first;
      for (const cuda::LoopTile& tile :
           cuda::Tiles(match->step, batch, cuda::RoomOnThisDevice(cuda::LoopProcessors()))) {
        const auto got = loop.Run(tile);
        const std::string what = fmt::format(
            "{} sequences, {} units, {} together, {} splits, {} finishing, {} rows", batch,
            tile.units, tile.together, tile.splits, tile.finishing, tile.tile_rows);
        EXPECT_EQ(loop.Run(tile, {1, 4, kSteps}), got) << "in blocks of steps: " << what;
        if (first.empty()) first = got;
        for (size_t i = 0; i < got.size(); ++i) {
          EXPECT_LE(Distance(got[i], first[i]), GpuTolerance(precision))
              << what << ", output " << i;
        }
      }
    }
  }
}

std::vector<TileCase> TileCases() {
  std::vector<TileCase> cases;
  for (const int64_t hidden : {512, 650, 1024, 1150, 2048}) {
    cases.push_back({"lstm", Precision::kBFloat16, hidden});
  }
  for (const char* cell : {"gru", "rnn_tanh"}) {
    for (const int64_t hidden : {768, 1536}) cases.push_back({cell, Precision::kBFloat16, hidden});
  }
  for (const char* cell : {"lstm", "gru"}) {
    cases.push_back({cell, Precision::kFloat16, 1024});
    cases.push_back({cell, Precision::kTf32, 768});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Cells, PersistentTilesOnGpu, ::testing::ValuesIn(TileCases()),
                         [](const auto& param) { return NameOf(param.param); });

}  // namespace
}  // namespace turbolstm
