// Schedules of a device: tasks on streams in any order that is allowed give what tasks one after
// the other give, loops that may run at once fit, and so does memory.

#include "execution/device_schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "execution/device_lowering.h"
#include "execution/memory_plan.h"
#include "plan/recurrent_graphs.h"
#include "plan/stream_clocks.h"
#include "plan/verify.h"

namespace turbolstm {
namespace {

constexpr DeviceModel kDevice{.processors = 132};

// Every loop has a kernel: an eighth of the device at least, the more of it the quicker.
LoopShare AnyLoop(size_t group, int64_t processors) {
  const auto least = static_cast<int64_t>(16 + group % 3);
  if (processors < least) return {};
  const int64_t taken = processors / least * least;
  return {taken, 1e-6 + 1e-6 * static_cast<double>(least) / static_cast<double>(taken)};
}

std::vector<DeviceLoop> LoopsOf(const LoweredGraph& graph, bool product_is_read = false) {
  std::vector<DeviceLoop> loops;
  for (const Group& group : graph.groups) {
    const bool persistent = group.is_loop() && group.stages.size() == 2;
    loops.push_back({persistent, persistent && product_is_read});
  }
  return loops;
}

LoweredGraph Trained(const RecurrentOptions& options) {
  return LowerForDevice(WithGradients(RecurrentGraph(options)), Precision::kBFloat16,
                        BoundaryType::kOperand);
}

RecurrentOptions Layers(const std::string& cell, int64_t layers, int64_t hidden = 32) {
  RecurrentOptions options = SmallOptions(cell);
  options.size.input = options.size.hidden = hidden;
  options.layers = layers;
  return options;
}

struct Case {
  std::string cell;
  int64_t layers;
  bool bidirectional;
  int64_t blocks;  // asked for; 0: chosen
  bool product_is_read = false;
  bool given = false;  // initial states
};

const Case kCases[] = {{"lstm", 1, false, 4},
                       {"lstm", 4, false, 0},
                       {"lstm", 3, true, 5},
                       {"gru", 2, true, 0},
                       {"gru", 2, false, 3, true},
                       {"rnn_tanh", 5, false, 8},
                       {"lstm", 2, false, 7, false, true},
                       {"lstm", 2, true, 1},
                       {"peephole_lstm", 2, true, 4, true, true}};

class DeviceSchedules : public ::testing::TestWithParam<Case> {
 protected:
  static constexpr DeviceShapeOfWork kShape{100, 64};

  static LoweredGraph GraphOf(const Case& c) {
    RecurrentOptions options = Layers(c.cell, c.layers);
    options.bidirectional = c.bidirectional;
    if (c.given) options.initial = InitialState::kGiven;
    return Trained(options);
  }
  static DeviceSchedule ScheduleOf(const Case& c, const LoweredGraph& graph) {
    return ScheduleForDevice(graph, LoopsOf(graph, c.product_is_read), kShape, kDevice, AnyLoop,
                             {.blocks = c.blocks});
  }
};

TEST_P(DeviceSchedules, AreOneWayToRunTheTasksInTheirOrder) {
  const LoweredGraph graph = GraphOf(GetParam());
  const DeviceSchedule schedule = ScheduleOf(GetParam(), graph);
  EXPECT_NO_THROW(VerifySchedule(schedule.work.tasks, schedule.streams));
  EXPECT_LE(MostResident(schedule, AnyLoop), kDevice.processors);
  EXPECT_GT(schedule.seconds, 0);
  EXPECT_EQ(ScheduleOf(GetParam(), graph).Text(), schedule.Text()) << "the same twice";
  if (GetParam().blocks == 0) return;
  const std::set<int64_t> blocks = [&] {
    std::set<int64_t> begins;
    for (size_t j = 0; j < schedule.work.tasks.size(); ++j) {
      if (schedule.work.parts[j] == DevicePart::kLoop) {
        begins.insert(schedule.work.tasks[j].time_begin);
      }
    }
    return begins;
  }();
  EXPECT_NEAR(static_cast<double>(blocks.size()), static_cast<double>(GetParam().blocks), 1);
}

// Every dependency matters: without the wait for it, the schedule is refused.
TEST_P(DeviceSchedules, NeedEveryWait) {
  const LoweredGraph graph = GraphOf(GetParam());
  const DeviceSchedule schedule = ScheduleOf(GetParam(), graph);
  int waits = 0;
  for (size_t j = 0; j < schedule.streams.waits.size(); ++j) {
    for (size_t w = 0; w < schedule.streams.waits[j].size(); ++w) {
      Schedule broken = schedule.streams;
      broken.waits[j].erase(broken.waits[j].begin() + static_cast<std::ptrdiff_t>(w));
      EXPECT_THROW(VerifySchedule(schedule.work.tasks, broken), Error);
      ++waits;
    }
  }
  EXPECT_GT(waits, 0);
}

// Of two blocks of memory in one place, all tasks on the one are done before any on the other
// begins, whatever order the streams run in.
TEST_P(DeviceSchedules, GiveMemoryToOneValueAtATime) {
  const LoweredGraph graph = GraphOf(GetParam());
  const DeviceSchedule schedule = ScheduleOf(GetParam(), graph);
  const std::vector<int64_t> state_bytes(graph.groups.size(), 1000);
  MemoryPlan plan(graph);
  plan.SetShape(kShape.steps, kShape.batch, schedule, state_bytes);
  const auto buffers = std::ssize(graph.buffers);
  const std::vector<View>& narrow = plan.narrow_statics();
  ASSERT_EQ(narrow, schedule.work.narrow_statics);
  struct Place {
    int64_t begin = 0, end = 0;
    std::vector<int32_t> tasks;
  };
  std::vector<Place> places(graph.buffers.size() + narrow.size() + graph.groups.size());
  for (size_t i = 0; i < graph.buffers.size(); ++i) {
    const Buffer& buffer = graph.buffers[i];
    const int64_t rows = buffer.domain == Domain::kStatic  ? 1
                         : buffer.domain == Domain::kBatch ? kShape.batch
                         : buffer.ring > 0                 ? kShape.batch * buffer.ring
                         : buffer.local                    ? kShape.batch
                                                           : kShape.batch * kShape.steps;
    places[i].begin = plan.offset(static_cast<int32_t>(i));
    places[i].end =
        places[i].begin + rows * buffer.width * static_cast<int64_t>(SizeOf(buffer.dtype));
  }
  for (size_t i = 0; i < narrow.size(); ++i) {
    Place& place = places[graph.buffers.size() + i];
    place.begin = plan.narrow_static_offset(i);
    place.end = place.begin + 2 * narrow[i].width;
  }
  for (size_t g = 0; g < graph.groups.size(); ++g) {
    Place& place = places[graph.buffers.size() + narrow.size() + g];
    place.begin = plan.state_offset(g);
    place.end = place.begin + state_bytes[g];
  }
  const StreamClocks clocks(schedule.work.tasks, schedule.streams.streams, schedule.streams.waits);
  for (int32_t task = 0; task < std::ssize(schedule.work.tasks); ++task) {
    const Task& t = schedule.work.tasks[static_cast<size_t>(task)];
    for (const auto* accesses : {&t.reads, &t.writes}) {
      for (const Access& access : *accesses) {
        if (access.buffer < buffers && plan.IsParameter(access.buffer)) continue;
        places[static_cast<size_t>(access.buffer)].tasks.push_back(task);
      }
    }
  }
  std::set<int32_t> bound, read;  // by the caller
  for (const NamedView& value : graph.inputs) bound.insert(value.view.buffer);
  for (const NamedView& value : graph.outputs) read.insert(value.view.buffer);
  const auto before = [&](const Place& a, const Place& b) {
    return std::all_of(a.tasks.begin(), a.tasks.end(), [&](int32_t first) {
      return std::all_of(b.tasks.begin(), b.tasks.end(), [&](int32_t second) {
        return first != second && clocks.Ordered(first, second);
      });
    });
  };
  int shared = 0;
  for (size_t a = 0; a < places.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      const Place &x = places[a], &y = places[b];
      if (x.tasks.empty() || y.tasks.empty()) continue;
      if (x.end <= y.begin || y.end <= x.begin) continue;
      ++shared;
      EXPECT_FALSE(bound.contains(static_cast<int32_t>(a)) ||
                   bound.contains(static_cast<int32_t>(b)));
      EXPECT_TRUE((before(x, y) && !read.contains(static_cast<int32_t>(a))) ||
                  (before(y, x) && !read.contains(static_cast<int32_t>(b))))
          << a << " and " << b;
    }
  }
  EXPECT_GT(shared, 0) << "nothing shares memory";
}

INSTANTIATE_TEST_SUITE_P(Networks, DeviceSchedules, ::testing::ValuesIn(kCases),
                         [](const auto& param) {
                           const Case& c = param.param;
                           return fmt::format("{}_{}_{}", c.cell, c.layers, param.index);
                         });

TEST(DeviceSchedule, RunsLayersBesideEachOther) {
  const LoweredGraph graph = Trained(Layers("lstm", 4, 256));
  const std::vector<DeviceLoop> loops = LoopsOf(graph);
  const DeviceShapeOfWork shape{128, 64};
  const DeviceSchedule schedule = ScheduleForDevice(graph, loops, shape, kDevice, AnyLoop);
  EXPECT_GT(schedule.block, 0);
  EXPECT_LT(schedule.seconds, 0.7 * SecondsInTurns(graph, loops, shape, kDevice, AnyLoop));
}

TEST(DeviceSchedule, NamesLeaveLessToBeChosen) {
  const LoweredGraph graph = Trained(Layers("lstm", 2));
  const DeviceShapeOfWork shape{40, 16};
  const auto named = [&](ScheduleKind kind, int64_t blocks) {
    return ScheduleForDevice(graph, LoopsOf(graph), shape, kDevice, AnyLoop,
                             SearchOf(kind, shape.steps, blocks));
  };
  const auto cuts_sums = [](const DeviceSchedule& schedule) {
    return std::find(schedule.work.adds.begin(), schedule.work.adds.end(), true) !=
           schedule.work.adds.end();
  };
  EXPECT_EQ(named(ScheduleKind::kWholeWindow, 4).block, 0);
  EXPECT_EQ(named(ScheduleKind::kWavefront, 4).block, 10);
  EXPECT_FALSE(cuts_sums(named(ScheduleKind::kWavefront, 0)));
  EXPECT_GT(named(ScheduleKind::kTurboLstm, 0).block, 0);
  EXPECT_EQ(named(ScheduleKind::kCellWavefront, 0).block, 1);
}

TEST(DeviceSchedule, RefusesLoopsThatFitNowhere) {
  const LoweredGraph graph = Trained(Layers("lstm", 1));
  const auto none = [](size_t, int64_t) { return LoopShare{}; };
  EXPECT_THROW(ScheduleForDevice(graph, LoopsOf(graph), {100, 64}, kDevice, none), Error);
}

TEST(DeviceSchedule, CutsWhereRowsOfProductsAreAligned) {
  const LoweredGraph graph = Trained(Layers("lstm", 2, 40));
  const DeviceShapeOfWork shape{100, 17};  // rows of 80 and 320 bytes
  const DeviceSchedule schedule =
      ScheduleForDevice(graph, LoopsOf(graph), shape, kDevice, AnyLoop, {.blocks = 10});
  EXPECT_EQ(schedule.block, 16);
}

}  // namespace
}  // namespace turbolstm
