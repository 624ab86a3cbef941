#include "execution/loop_tuning_cuda.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/check_cuda.h"
#include "backend/cuda/runtime_cuda.h"
#include "base/error.h"
#include "base/file_cache.h"
#include "ops/persistent_loop/emitter_cuda.h"
#include "ops/persistent_loop/persistent_loop_cuda.h"

namespace turbolstm::cuda {
namespace {

constexpr int64_t kSteps = 64;
constexpr int kRuns = 5;

// A loop's values, all zero: its time does not depend on them.
class ZeroLoop {
 public:
  ZeroLoop(const LoopStep& step, int64_t batch) : step_(step), batch_(batch) {
    run_.sequences.steps = kSteps;
    run_.sequences.batch = batch;
    run_.range = {0, kSteps, false};
    run_.end = kSteps;
    run_.reverse = !step.x.forward;
    run_.weight = Zeros(step.columns * step.inner * static_cast<int64_t>(SizeOf(step.operand)));
    run_.weight_stride = step.inner;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      RowOperand input;
      input.row_bytes = RowBytes(step.program.inputs[i]);
      input.data = Zeros(Rows(step.inputs[i]) * input.row_bytes);
      inputs_.push_back(input);
    }
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      RowOutput output;
      output.row_bytes = RowBytes(OutputType(step, i));
      output.data = Zeros(Rows(step.outputs[i]) * output.row_bytes);
      outputs_.push_back(output);
    }
    run_.inputs = inputs_;
    run_.outputs = outputs_;
    TL_CUDA_CHECK(cudaEventCreate(&begin_));
    TL_CUDA_CHECK(cudaEventCreate(&end_));
  }
  ~ZeroLoop() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  ZeroLoop(const ZeroLoop&) = delete;
  ZeroLoop& operator=(const ZeroLoop&) = delete;

  // The least milliseconds of a few runs.
  float Time(const LoopTile& tile) {
    const PersistentLoop loop(step_, tile);
    const DeviceBuffer exchange(static_cast<size_t>(tile.exchange_bytes), "a loop's exchange");
    DeviceBuffer fault(sizeof(int), "a loop's fault");
    fault.Clear();
    float least = HUGE_VALF;
    for (int i = 0; i <= kRuns; ++i) {
      TL_CUDA_CHECK(cudaEventRecord(begin_, stream_.get()));
      loop.Launch(run_, exchange.data(), reinterpret_cast<int*>(fault.data()), stream_.get());
      TL_CUDA_CHECK(cudaEventRecord(end_, stream_.get()));
      TL_CUDA_CHECK(cudaEventSynchronize(end_));
      float time = 0;
      TL_CUDA_CHECK(cudaEventElapsedTime(&time, begin_, end_));
      if (i > 0) least = std::min(least, time);
    }
    return least;
  }

 private:
  int64_t Rows(const LoopRows& rows) const {
    if (rows.kind == RowKind::kShared) return 1;
    if (rows.kind == RowKind::kBatch) return batch_;
    return (rows.period == 0 ? kSteps : rows.period) * batch_;
  }
  // Rounded up, so that rows begin where kernels for any alignment can read them.
  int64_t RowBytes(DType dtype) const {
    return (step_.units * static_cast<int64_t>(SizeOf(dtype)) + 15) / 16 * 16;
  }
  char* Zeros(int64_t bytes) {
    DeviceBuffer& buffer =
        buffers_.emplace_back(static_cast<size_t>(std::max<int64_t>(bytes, 16)), "a loop to tune");
    buffer.Clear();
    return reinterpret_cast<char*>(buffer.data());
  }

  const LoopStep& step_;
  int64_t batch_;
  std::deque<DeviceBuffer> buffers_;
  std::vector<RowOperand> inputs_;
  std::vector<RowOutput> outputs_;
  LoopRun run_;
  Stream stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

// What the fastest tile depends on.
std::string KeyOf(const LoopStep& step, const std::vector<LoopTile>& tiles, int64_t batch,
                  const LoopRoom& room) {
  int device = 0, driver = 0;
  cudaDeviceProp properties{};
  TL_CUDA_CHECK(cudaGetDevice(&device));
  TL_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  TL_CUDA_CHECK(cudaDriverGetVersion(&driver));
  std::string key = fmt::format("{}, driver {}, {} multiprocessors, {} sequences\n",
                                properties.name, driver, room.processors, batch);
  for (const LoopTile& tile : tiles) {
    key += fmt::format("{:016x}\n", std::hash<std::string>()(EmitLoop(step, tile)));
  }
  return key;
}

std::optional<size_t> KeptChoice(const FileCache& cache, const std::string& key, size_t tiles) {
  const auto kept = cache.Find(key);
  size_t choice = 0;
  if (!kept) return {};
  const auto [end, error] = std::from_chars(kept->data(), kept->data() + kept->size(), choice);
  if (error != std::errc() || choice >= tiles) return {};
  return choice;
}

size_t Fastest(const LoopStep& step, const std::vector<LoopTile>& tiles, int64_t batch) {
  ZeroLoop loop(step, batch);
  std::vector<float> times;
  for (const LoopTile& tile : tiles) times.push_back(loop.Time(tile));
  return static_cast<size_t>(std::ranges::min_element(times) - times.begin());
}

}  // namespace

LoopTile TunedTile(const LoopStep& step, int64_t batch, const LoopRoom& room, int64_t chains) {
  const std::vector<LoopTile> tiles = Tiles(step, batch, room, chains);
  if (tiles.size() < 2) return tiles.empty() ? LoopTile{} : tiles.front();
  const FileCache cache(FileCache::DefaultFolder(), "loop");
  const std::string key = KeyOf(step, tiles, batch, room);
  if (const auto kept = KeptChoice(cache, key, tiles.size())) return tiles[*kept];
  const size_t choice = Fastest(step, tiles, batch);
  const std::string text = std::to_string(choice);
  cache.Store(key, {text.begin(), text.end()});
  return tiles[choice];
}

}  // namespace turbolstm::cuda
