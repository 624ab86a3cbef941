// Inputs and outputs that a GPU keeps in 16 bits: what may be bound and read how, and that the
// memory that this takes is what was planned without a GPU.

#include <gtest/gtest.h>

#include "base/error_test.h"
#include "execution/device_lowering.h"
#include "execution/executable_cuda.h"
#include "execution/gpu_tolerance.h"
#include "execution/memory_plan.h"
#include "plan/named_views.h"
#include "plan/recurrent_graphs.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

// Beside values and products: signals between blocks, lengths, sums over rows.
constexpr int64_t kRestBytes = int64_t{1} << 20;

Graph TrainedLstm(int64_t size) {
  RecurrentOptions options = SmallOptions("lstm");
  options.size.input = options.size.hidden = size;
  return WithGradients(RecurrentGraph(options));
}

DeviceOptions OptionsOf(Precision precision, BoundaryType boundary) {
  return {.index = 0, .precision = precision, .boundary = boundary};
}

TEST(HalfValuesOnGpu, AreRefusedWhereFloat32IsKept) {
  SKIP_WITHOUT_GPU();
  const std::vector<uint16_t> bits(5 * 3 * 8);
  const Graph graph = TrainedLstm(8);
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    cuda::CudaExecutable wide(graph, OptionsOf(precision, BoundaryType::kFloat32));
    wide.SetShape(5, 3);
    EXPECT_EQ(ErrorOf([&] { wide.BindHalf("x", bits); }),
              "[bind] 'x' is float32 here, got 16-bit numbers");
    EXPECT_EQ(ErrorOf([&] { wide.HalfOutput("y"); }),
              "[output] 'y' is float32 here, 16-bit numbers were asked for");
  }
  cuda::CudaExecutable half(graph, OptionsOf(Precision::kFloat16, BoundaryType::kOperand));
  half.SetShape(5, 3);
  EXPECT_EQ(ErrorOf([&] { half.BindHalf("x", bits); }), "");
  EXPECT_EQ(ErrorOf([&] { half.BindHalf("z", bits); }),
            "[bind] the graph has no input or parameter 'z'");
  EXPECT_EQ(ErrorOf([&] { half.BindHalf("x", std::vector<uint16_t>(7)); }),
            "[bind] 'x' got 7 elements, wants 120 (step [8])");
  EXPECT_EQ(ErrorOf([&] { half.DeviceOutput("y"); }),
            "[output] 'y' is float16 on the device, float32 was asked for");
}

TEST(HalfValuesOnGpu, TakeTheMemoryThatWasPlanned) {
  SKIP_WITHOUT_GPU();
  const Graph graph = TrainedLstm(256);
  const Bindings bindings = RandomBindings(graph, 1, {.steps = 64, .batch = 32, .ragged = false});
  for (const BoundaryType boundary : {BoundaryType::kFloat32, BoundaryType::kOperand}) {
    const LoweredGraph lowered = LowerForDevice(graph, Precision::kBFloat16, boundary);
    MemoryPlan plan(lowered);
    plan.SetShape(64, 32);
    DeviceOptions options = OptionsOf(Precision::kBFloat16, boundary);
    options.schedule = ScheduleKind::kSequential;  // what the plan is for
    cuda::CudaExecutable execution(graph, options);
    RunOn(&execution, bindings);
    execution.Synchronize();
    EXPECT_GE(execution.memory_bytes(), plan.bytes());
    EXPECT_LE(execution.memory_bytes(), plan.bytes() + plan.ProductWorkspaceBytes() + kRestBytes);
  }
}

}  // namespace
}  // namespace turbolstm
