// Layers, directions and products beside each other on a GPU: what is expected of it, and that it
// gives what groups one after the other give.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "execution/device_lowering.h"
#include "execution/device_schedule.h"
#include "execution/executable_cuda.h"
#include "execution/gpu_tolerance.h"
#include "execution/half_values.h"
#include "execution/memory_plan.h"
#include "execution/persistent_match_cuda.h"
#include "plan/recurrent_graphs.h"
#include "testing/random_bindings.h"

namespace turbolstm {
namespace {

// An H200, as far as it matters.
constexpr DeviceModel kDevice{.processors = 132};
constexpr int64_t kSharedBytes = 227 * 1024;
constexpr double kMostPlanningSeconds = 0.5;
constexpr double kMebibyte = 1 << 20;

RecurrentOptions OptionsOf(const std::string& cell, int64_t input, int64_t hidden, int64_t layers,
                           bool bidirectional) {
  RecurrentOptions options;
  options.cell = cell;
  options.size.input = input;
  options.size.hidden = hidden;
  options.layers = layers;
  options.bidirectional = bidirectional;
  return options;
}

struct Expected {
  double in_turns = 0, scheduled = 0;  // seconds
  double planning = 0;
  int64_t bytes_in_turns = 0, bytes_scheduled = 0;
  DeviceSchedule schedule;
};

// A training step in bf16.
Expected Expect(const RecurrentOptions& options, int64_t steps, int64_t batch) {
  const LoweredGraph graph = LowerForDevice(WithGradients(RecurrentGraph(options)),
                                            Precision::kBFloat16, BoundaryType::kOperand);
  std::vector<std::optional<cuda::LoopMatch>> matches;
  std::vector<DeviceLoop> loops;
  for (const Group& group : graph.groups) {
    matches.push_back(cuda::MatchPersistentLoop(graph, group));
    loops.push_back(
        {matches.back().has_value(), matches.back() && matches.back()->product_is_read});
  }
  const auto shares = [&](size_t group, int64_t processors) {
    const cuda::LoopStep& step = matches[group]->step;
    const cuda::LoopTile tile = cuda::ChooseTile(step, batch, {processors, kSharedBytes, true});
    if (tile.parts == 0) return LoopShare{};
    return LoopShare{tile.parts * tile.groups, cuda::PersistentCost(step, tile),
                     cuda::StartCost(step, tile)};
  };
  Expected expected;
  const DeviceShapeOfWork shape{steps, batch};
  const auto begin = std::chrono::steady_clock::now();
  expected.schedule = ScheduleForDevice(graph, loops, shape, kDevice, shares);
  expected.planning =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  expected.scheduled = expected.schedule.seconds;
  expected.in_turns = SecondsInTurns(graph, loops, shape, kDevice, shares);
  MemoryPlan plan(graph);
  plan.SetShape(steps, batch);
  expected.bytes_in_turns = plan.bytes();
  plan.SetShape(steps, batch, expected.schedule, {});
  expected.bytes_scheduled = plan.bytes();
  return expected;
}

struct Shape {
  int64_t steps, batch, input, hidden, layers;
  bool bidirectional;
};

TEST(Overlap, IsExpectedToPayWhereLoopsLeaveRoom) {
  for (const Shape& s : {Shape{128, 64, 256, 256, 4, false},   Shape{128, 64, 512, 512, 4, false},
                         Shape{128, 64, 1024, 1024, 4, false}, Shape{256, 64, 256, 256, 2, true},
                         Shape{256, 64, 512, 512, 2, true},    Shape{256, 64, 1024, 1024, 2, true},
                         Shape{200, 32, 1024, 1024, 5, false}, Shape{400, 256, 96, 96, 5, false},
                         Shape{256, 16, 512, 512, 1, false},   Shape{256, 16, 2048, 512, 1, false},
                         Shape{256, 64, 512, 512, 1, false},   Shape{256, 64, 2048, 512, 1, false},
                         Shape{256, 16, 1024, 1024, 1, false}, Shape{256, 16, 4096, 1024, 1, false},
                         Shape{256, 64, 1024, 1024, 1, false}, Shape{256, 64, 4096, 1024, 1, false},
                         Shape{400, 64, 128, 128, 2, false},   Shape{400, 64, 256, 256, 2, false},
                         Shape{400, 64, 512, 512, 2, false},   Shape{128, 16, 512, 512, 4, false},
                         Shape{1000, 64, 512, 512, 4, false}}) {
    const Expected e =
        Expect(OptionsOf("lstm", s.input, s.hidden, s.layers, s.bidirectional), s.steps, s.batch);
    fmt::print(
        "T {} B {} I {} H {} L {}{}: expected {:.3f} ms in turns, {:.3f} at once ({:.2f}): blocks "
        "of {}, loops on {}; {} tasks on {} streams planned in {:.0f} ms; {:.1f} and {:.1f} MiB\n",
        s.steps, s.batch, s.input, s.hidden, s.layers, s.bidirectional ? " bi" : "",
        1e3 * e.in_turns, 1e3 * e.scheduled, e.in_turns / e.scheduled, e.schedule.block,
        e.schedule.share, e.schedule.work.tasks.size(), e.schedule.streams.streams.size(),
        1e3 * e.planning, static_cast<double>(e.bytes_in_turns) / kMebibyte,
        static_cast<double>(e.bytes_scheduled) / kMebibyte);
    EXPECT_LT(e.planning, kMostPlanningSeconds);
    const bool wave = s.layers > 1 && s.hidden <= 256 && !s.bidirectional;
    EXPECT_LE(e.scheduled, (wave ? 0.8 : 1.0) * e.in_turns);
  }
}

struct Case {
  std::string cell;
  int64_t hidden, layers;
  bool bidirectional;
  int64_t steps, batch;
  bool ragged = false;
  double resets = 0;
  InitialState initial = InitialState::kZero;
  Precision precision = Precision::kBFloat16;
  int64_t blocks = 0;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << fmt::format("{} H {} L {} {} T {} B {} {} {} {} {}", c.cell, c.hidden, c.layers,
                      c.bidirectional ? "bi" : "", c.steps, c.batch, c.ragged ? "ragged" : "",
                      c.resets > 0 ? "resets" : "", Name(c.precision), c.blocks);
}

class OverlapOnGpu : public ::testing::TestWithParam<Case> {
 protected:
  static bool IsGradient(const std::string& name) { return name.starts_with("d."); }
};

TEST_P(OverlapOnGpu, GivesWhatGroupsInTurnsGive) {
  SKIP_WITHOUT_GPU();
  const Case& c = GetParam();
  RecurrentOptions options = OptionsOf(c.cell, c.hidden, c.hidden, c.layers, c.bidirectional);
  options.initial = c.initial;
  const Graph graph = WithGradients(RecurrentGraph(options));
  Bindings bindings = RandomBindings(
      graph, 11, {.steps = c.steps, .batch = c.batch, .ragged = c.ragged, .resets = c.resets});
  const bool half = c.precision != Precision::kTf32;
  if (half) RoundStepInputs(graph, c.precision, &bindings);
  DeviceOptions device{.index = 0,
                       .precision = c.precision,
                       .boundary = half ? BoundaryType::kOperand : BoundaryType::kFloat32,
                       .schedule = ScheduleKind::kSequential};
  cuda::CudaExecutable in_turns(graph, device);
  const Outputs wanted = RunAndRead(&in_turns, bindings);
  EXPECT_EQ(in_turns.schedule(), nullptr);
  device.in_turns = false;
  device.schedule = c.blocks == 1 ? ScheduleKind::kWholeWindow : ScheduleKind::kTurboLstm;
  device.time_blocks = c.blocks;
  cuda::CudaExecutable at_once(graph, device);
  const Outputs got = RunAndRead(&at_once, bindings);
  ASSERT_NE(at_once.schedule(), nullptr);
  EXPECT_EQ(at_once.schedule()->block > 0, c.blocks != 1);
  EXPECT_EQ(at_once.persistent_loops(), in_turns.persistent_loops());
  for (int run = 0; run < 3; ++run) {
    EXPECT_EQ(RunAndRead(&at_once, bindings), got) << "the same run again";
  }
  for (const auto& [name, values] : wanted) {
    if (IsGradient(name)) continue;
    EXPECT_EQ(got.at(name), values) << name << " has other bits";
  }
  EXPECT_EQ(Differences(graph, bindings, got, GpuTolerance(c.precision)), "");
}

constexpr InitialState kGiven = InitialState::kGiven;
const Case kCases[] = {
    {"lstm", 64, 4, false, 40, 32, false, 0, InitialState::kZero, Precision::kBFloat16, 5},
    {"lstm", 64, 2, true, 33, 16, true, 0.1, kGiven, Precision::kBFloat16, 4},
    {"lstm", 40, 5, false, 70, 17, true, 0, kGiven, Precision::kBFloat16, 4},
    {"lstm", 256, 3, false, 24, 64, false, 0, InitialState::kZero, Precision::kBFloat16, 3},
    {"lstm", 512, 2, false, 20, 64, false, 0, InitialState::kZero, Precision::kBFloat16, 2},
    {"lstm", 256, 4, false, 32, 64, false, 0, InitialState::kZero, Precision::kBFloat16, 0},
    {"lstm", 128, 1, false, 48, 16, false, 0, kGiven, Precision::kBFloat16, 6},
    {"lstm", 128, 3, true, 30, 48, true, 0, InitialState::kZero, Precision::kFloat16, 3},
    {"lstm", 96, 2, false, 32, 256, true, 0, InitialState::kZero, Precision::kTf32, 4},
    {"gru", 64, 3, false, 40, 32, true, 0.1, kGiven, Precision::kBFloat16, 5},
    {"gru", 128, 2, true, 24, 64, false, 0, InitialState::kZero, Precision::kBFloat16, 3},
    {"gru", 256, 2, false, 16, 70, true, 0, InitialState::kZero, Precision::kFloat16, 2},
    {"rnn_tanh", 64, 4, false, 32, 32, true, 0.2, kGiven, Precision::kBFloat16, 4},
    {"rnn_tanh", 512, 2, true, 18, 40, false, 0, InitialState::kZero, Precision::kTf32, 3},
    {"peephole_lstm", 64, 2, true, 32, 24, true, 0, kGiven, Precision::kBFloat16, 4},
};

INSTANTIATE_TEST_SUITE_P(Networks, OverlapOnGpu, ::testing::ValuesIn(kCases));

// Shapes change to and fro between schedules and turns.
TEST(OverlapOnGpu, ShapesChange) {
  SKIP_WITHOUT_GPU();
  const Graph graph = WithGradients(RecurrentGraph(OptionsOf("lstm", 64, 64, 3, false)));
  cuda::CudaExecutable execution(graph, {.index = 0,
                                         .precision = Precision::kBFloat16,
                                         .schedule = ScheduleKind::kTurboLstm,
                                         .in_turns = false,
                                         .time_blocks = 3});
  struct Seen {
    Bindings bindings;
    Outputs outputs;
  };
  std::vector<Seen> seen;
  for (const int64_t steps : {24, 48, 1, 30}) {
    for (const bool ragged : {false, true}) {
      Seen& now = seen.emplace_back();
      now.bindings = RandomBindings(graph, static_cast<uint64_t>(steps),
                                    {.steps = steps, .batch = steps + 8, .ragged = ragged});
      now.outputs = RunAndRead(&execution, now.bindings);
      EXPECT_EQ(Differences(graph, now.bindings, now.outputs, GpuTolerance(Precision::kBFloat16)),
                "");
    }
  }
  for (const Seen& before : seen) {
    EXPECT_EQ(RunAndRead(&execution, before.bindings), before.outputs);
  }
}

}  // namespace
}  // namespace turbolstm
