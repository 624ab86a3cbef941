// Which kernel a run gets; needs no device.

#include "ops/pointwise/launch_plan_cuda.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

namespace turbolstm::cuda {
namespace {

// y = x + 1 over [steps * batch, n] of one type; memory is never touched.
class AddOne {
 public:
  AddOne(DType dtype, int64_t steps, int64_t batch, int64_t n)
      : typed_{{{InputKind::kElement}, {1}, {{PointwiseOp::kAdd, 0, 1}}, {2}}, {dtype}, {dtype}} {
    const auto row_bytes = n * static_cast<int64_t>(SizeOf(dtype));
    in = {.data = Address(1 << 20),
          .row_bytes = row_bytes,
          .period = steps,
          .kind = RowKind::kStep,
          .dtype = static_cast<signed char>(dtype)};
    out = {.data = Address(1 << 24),
           .row_bytes = row_bytes,
           .period = steps,
           .dtype = static_cast<signed char>(dtype)};
    run = {.sequences = {.steps = steps, .batch = batch}, .range = {0, steps, true}, .n = n};
  }

  LaunchPlan Plan() {
    run.inputs = std::span(&in, 1);
    run.outputs = std::span(&out, 1);
    return PlanLaunch(typed_, run);
  }
  static char* Address(uintptr_t number) { return reinterpret_cast<char*>(number); }

  RowOperand in;
  RowOutput out;
  PointwiseRun run;

 private:
  TypedProgram typed_;
};

int64_t Threads(const LaunchPlan& plan) {
  const auto count = [](const LaunchShape& s) { return int64_t{s.x} * s.y * s.z; };
  return count(plan.grid) * count(plan.block);
}

TEST(LaunchPlanCuda, SmallRunsHaveAThreadForEachElement) {
  const LaunchPlan plan = AddOne(DType::kFloat32, 1, 64, 512).Plan();
  EXPECT_EQ(plan.variant, KernelVariant::kPlain);
  EXPECT_EQ(Threads(plan), 64 * 512);
}

TEST(LaunchPlanCuda, LargeRunsTakeFourElementsIfAligned) {
  EXPECT_EQ(AddOne(DType::kFloat32, 400, 64, 512).Plan().variant, KernelVariant::kPlain4);
  EXPECT_EQ(Threads(AddOne(DType::kFloat32, 400, 64, 512).Plan()), 400 * 64 * 512 / 4);
  EXPECT_EQ(AddOne(DType::kBFloat16, 1, 64, 512).Plan().variant, KernelVariant::kPlain4);
  AddOne odd(DType::kFloat32, 400, 64, 512);
  odd.in.data += 4;
  EXPECT_EQ(odd.Plan().variant, KernelVariant::kPlain);
  AddOne gaps(DType::kFloat32, 400, 64, 512);
  gaps.out.row_bytes += 4;
  EXPECT_EQ(gaps.Plan().variant, KernelVariant::kPlain);
}

TEST(LaunchPlanCuda, DelaysWithRowsInLineNeedNoLookup) {
  AddOne run(DType::kFloat32, 9, 4, 8);
  run.in.delay = 2;
  run.run.range = {3, 1, true};
  EXPECT_EQ(run.Plan().variant, KernelVariant::kPlain);
  run.run.range = {2, 7, true};
  EXPECT_EQ(run.Plan().variant, KernelVariant::kPlain);
  run.run.range = {1, 8, true};  // begins with initial values
  EXPECT_EQ(run.Plan().variant, KernelVariant::kGeneral);
  run.run.range = {1, 1, true};
  EXPECT_EQ(run.Plan().variant, KernelVariant::kGeneral);  // zeros
  run.in.init = AddOne::Address(1 << 12);
  EXPECT_EQ(run.Plan().variant, KernelVariant::kPlain);
}

TEST(LaunchPlanCuda, WhatDependsOnTheSequenceIsLookedUp) {
  const int* lengths = reinterpret_cast<const int*>(AddOne::Address(1 << 10));
  AddOne reverse(DType::kFloat32, 9, 4, 8);
  reverse.in.delay = 1;
  reverse.in.direction = -1;
  reverse.run.range = {3, 1, true};
  reverse.run.sequences.lengths = lengths;
  EXPECT_EQ(reverse.Plan().variant, KernelVariant::kPlain);  // zeros behind the end
  reverse.in.init = AddOne::Address(1 << 12);
  EXPECT_EQ(reverse.Plan().variant, KernelVariant::kGeneral);
  AddOne resets(DType::kFloat32, 9, 4, 8);
  resets.run.sequences.resets = reinterpret_cast<const unsigned char*>(lengths);
  EXPECT_EQ(resets.Plan().variant, KernelVariant::kPlain);
  resets.in.delay = 1;
  resets.run.range = {3, 1, true};
  EXPECT_EQ(resets.Plan().variant, KernelVariant::kGeneral);
  AddOne ring(DType::kFloat32, 9, 4, 8);
  ring.in.period = 2;
  EXPECT_EQ(ring.Plan().variant, KernelVariant::kGeneral);
  ring.run.range = {3, 1, true};
  EXPECT_EQ(ring.Plan().variant, KernelVariant::kPlain);
}

// h = h' + x over [steps, batch, n], h' some steps before.
LaunchPlan PlanSums(int64_t steps, int64_t batch, int64_t n, int delay, int64_t begin = 0) {
  const PointwiseProgram sum{
      {InputKind::kElement, InputKind::kElement}, {}, {{PointwiseOp::kAdd, 0, 1}}, {2}};
  const TypedProgram typed{sum, {DType::kFloat32, DType::kFloat32}, {DType::kFloat32}, true, 1, 0};
  const RowOperand x{.data = AddOne::Address(1 << 20),
                     .row_bytes = 4 * n,
                     .period = steps,
                     .kind = RowKind::kStep};
  const RowOutput h{.data = AddOne::Address(1 << 24), .row_bytes = 4 * n, .period = steps};
  RowOperand before = x;
  before.data = h.data;
  before.delay = delay;
  const std::vector<RowOperand> inputs{x, before};
  return PlanLaunch(typed, {.sequences = {.steps = steps, .batch = batch},
                            .range = {begin, steps - begin, true},
                            .n = n,
                            .inputs = inputs,
                            .outputs = std::span(&h, 1)});
}

TEST(LaunchPlanCuda, LongLoopsOfFewElementsAreScanned) {
  const LaunchPlan plan = PlanSums(4096, 1, 256, 1);
  EXPECT_EQ(plan.variant, KernelVariant::kPlain);
  EXPECT_EQ(plan.block.x * plan.grid.x, 256u);
  EXPECT_EQ(plan.block.x * plan.block.y, 512u);
  const LaunchPlan delayed = PlanSums(4096, 16, 256, 3);
  EXPECT_EQ(delayed.variant, KernelVariant::kPlain);
  EXPECT_EQ(delayed.block.x * delayed.grid.x, 16u * 256 * 3);
}

TEST(LaunchPlanCuda, ShortLoopsAndThoseOfManyElementsAreNot) {
  EXPECT_EQ(PlanSums(32, 1, 256, 1).variant, KernelVariant::kGeneral);
  EXPECT_EQ(PlanSums(4096, 1024, 256, 1).variant, KernelVariant::kGeneral);
  EXPECT_EQ(PlanSums(100, 1, 256, 3).variant, KernelVariant::kGeneral);
  EXPECT_EQ(PlanSums(4096, 1, 256, 1, 8).variant, KernelVariant::kGeneral);
}

TEST(LaunchPlanCuda, GridsStayWithinTheLimits) {
  for (const auto& [steps, batch, n] : {std::tuple<int64_t, int64_t, int64_t>{70000, 3, 1},
                                        {1, 10'000'000, 130},
                                        {1, 1, 1},
                                        {2, 1, int64_t{1} << 40}}) {
    AddOne run(DType::kFloat32, steps, batch, n);
    run.run.sequences.lengths = reinterpret_cast<const int*>(AddOne::Address(1 << 10));
    const LaunchPlan plan = run.Plan();
    EXPECT_LE(plan.grid.x, 2147483647u);
    EXPECT_LE(plan.grid.y, 65535u);
    EXPECT_LE(plan.grid.z, 65535u);
    EXPECT_LE(plan.block.x * plan.block.y * plan.block.z, 128u);
    EXPECT_GE(plan.block.x * plan.block.y * plan.block.z, 1u);
  }
}

}  // namespace
}  // namespace turbolstm::cuda
