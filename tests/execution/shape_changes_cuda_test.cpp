// Shapes set while a run is still on its way.

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>

#include "backend/cuda/check_cuda.h"
#include "execution/executable_cuda.h"
#include "execution/gpu_tolerance.h"
#include "plan/recurrent_graphs.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

// Holds a stream until it is opened, or gives up.
class Gate {
 public:
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  // For the stream.
  static void Wait(void* gate) {
    auto* const self = static_cast<Gate*>(gate);
    std::unique_lock lock(self->mutex_);
    const bool opened =
        self->changed_.wait_for(lock, std::chrono::seconds(3), [self] { return self->open_; });
    self->gave_up_ = self->gave_up_ || !opened;
  }
  bool gave_up() const { return gave_up_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  bool gave_up_ = false;
};

struct Shape {
  int64_t steps, batch;
};

Bindings BindingsOf(const Graph& graph, const Shape& shape, uint64_t seed) {
  return RandomBindings(graph, seed, {.steps = shape.steps, .batch = shape.batch});
}

class ShapeChangesOnGpu : public ::testing::TestWithParam<Precision> {
 protected:
  const Graph graph_ = WithGradients(RecurrentGraph(SmallOptions("lstm")));
};

TEST_P(ShapeChangesOnGpu, ASmallerShapeDoesNotWait) {
  SKIP_WITHOUT_GPU();
  cuda::CudaExecutable execution(
      graph_, {.index = 0, .precision = GetParam(), .split = SplitRule::kAlways});
  const Bindings large = BindingsOf(graph_, {9, 8}, 1);
  const Bindings small = BindingsOf(graph_, {3, 4}, 2);
  // Kernels are loaded and memory is there.
  RunOn(&execution, large);
  RunOn(&execution, small);
  execution.Synchronize();
  Gate gate;
  execution.AppendToRun(
      [&](cudaStream_t stream) { TL_CUDA_CHECK(cudaLaunchHostFunc(stream, &Gate::Wait, &gate)); });
  RunOn(&execution, large);
  RunOn(&execution, small);
  gate.Open();
  execution.Synchronize();
  EXPECT_FALSE(gate.gave_up()) << "the second run was not enqueued before the first ended";
  EXPECT_EQ(Differences(graph_, small, RunAndRead(&execution, small), GpuTolerance(GetParam())),
            "");
}

// Grown, shrunk and set again, with nothing read in between.
TEST_P(ShapeChangesOnGpu, RunsOnTheirWayAreNotDisturbed) {
  SKIP_WITHOUT_GPU();
  const DeviceOptions options{.index = 0, .precision = GetParam(), .split = SplitRule::kAlways};
  cuda::CudaExecutable execution(graph_, options);
  for (const Shape& shape : {Shape{40, 8}, Shape{3, 4}, Shape{60, 16}, Shape{40, 8}, Shape{0, 0},
                             Shape{80, 33}, Shape{3, 4}}) {
    const Bindings bindings = BindingsOf(graph_, shape, 3);
    for (int i = 0; i < 20; ++i) RunOn(&execution, bindings);
    const Bindings next = BindingsOf(graph_, {shape.steps + 1, shape.batch}, 4);
    const Outputs got = RunAndRead(&execution, next);
    cuda::CudaExecutable fresh(graph_, options);
    EXPECT_EQ(RunAndRead(&fresh, next), got) << shape.steps << " steps of " << shape.batch;
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, ShapeChangesOnGpu, ::testing::ValuesIn(kPrecisions),
                         [](const auto& param) { return std::string(Name(param.param)); });

}  // namespace
}  // namespace turbolstm
