// An executable that is used again and again: with other lengths, other shapes, after errors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "plan/recurrent_graphs.h"
#include "testing/dice.h"
#include "testing/random_bindings.h"
#include "testing/sanitized.h"

#if TL_SANITIZED
extern "C" size_t __sanitizer_get_current_allocated_bytes();
#endif

namespace turbolstm {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Graph TrainingGraph(const std::string& cell) {
  RecurrentOptions options = SmallOptions(cell);
  options.layers = 2;
  options.bidirectional = true;
  options.initial = InitialState::kGiven;
  return WithGradients(RecurrentGraph(options));
}

TEST(RepeatedRuns, ChangingLengthsDoNotDisturbEachOther) {
  constexpr int kKinds = 8;
  constexpr int kCalls = 200;
  for (const char* cell : {"lstm", "gru"}) {
    const Graph graph = TrainingGraph(cell);
    std::vector<Bindings> kinds;
    for (uint64_t k = 0; k < kKinds; ++k) {
      kinds.push_back(RandomBindings(graph, k, {.steps = 12, .batch = 6, .ragged = k > 0}));
    }
    Executable executable(graph, {.streams = 2});
    std::vector<Outputs> first(kKinds);
    Dice dice(17);
    for (int call = 0; call < kCalls; ++call) {
      const auto k = static_cast<size_t>(call < kKinds ? call : dice.Integer(0, kKinds - 1));
      const Outputs got = RunAndRead(&executable, kinds[k]);
      if (call < kKinds) first[k] = got;
      ASSERT_EQ(got, first[k]) << cell << ", call " << call;
    }
    EXPECT_EQ(Execute(graph, kinds[3], {.streams = 2}), first[3]) << "a fresh executable";
  }
}

TEST(RepeatedRuns, WrongBindingsLeaveTheExecutableUsable) {
  const Graph graph = TrainingGraph("lstm");
  const Bindings bindings = RandomBindings(graph, 3, {.steps = 5, .batch = 3, .ragged = true});
  Executable executable(graph, {.streams = 2});
  const Outputs first = RunAndRead(&executable, bindings);
  const std::vector<float> wrong(7);
  const std::vector<int32_t> indices(15);
  EXPECT_THAT([&] { executable.Bind("x", wrong); },
              ThrowsMessage<Error>(HasSubstr("[bind] 'x' got 7 elements, wants 75")));
  EXPECT_THAT([&] { executable.Bind("rnn.h_0_l0", wrong); },
              ThrowsMessage<Error>(HasSubstr("'rnn.h_0_l0' got 7 elements, wants 18")));
  EXPECT_THAT([&] { executable.Bind("rnn.weight_hh_l1", wrong); },
              ThrowsMessage<Error>(HasSubstr("'rnn.weight_hh_l1' got 7 elements, wants 144")));
  EXPECT_THAT([&] { executable.Bind("y", wrong); }, ThrowsMessage<Error>(HasSubstr("'y'")));
  EXPECT_THAT([&] { executable.BindIndices("x", indices); },
              ThrowsMessage<Error>(HasSubstr("'x' got indices, wants numbers")));
  EXPECT_THAT([&] { executable.Output("nothing"); },
              ThrowsMessage<Error>(HasSubstr("no output 'nothing'")));
  EXPECT_THAT([&] { executable.SetShape(-1, 3); }, ThrowsMessage<Error>(HasSubstr("-1 steps")));
  const std::vector<uint8_t> resets(4);
  EXPECT_THAT([&] { executable.SetShape(5, 3, {}, resets); },
              ThrowsMessage<Error>(HasSubstr("[resets] got 4, wants 5 x 3")));
  EXPECT_EQ(RunAndRead(&executable, bindings), first);
  executable.SetShape(6, 3);
  EXPECT_THAT([&] { executable.Run(); },
              ThrowsMessage<Error>(HasSubstr("elements, the shape wants")));
  EXPECT_EQ(RunAndRead(&executable, bindings), first);
  Executable fresh(graph, {.streams = 2});
  EXPECT_THAT([&] { fresh.Run(); }, ThrowsMessage<Error>(HasSubstr("is not bound")));
  EXPECT_EQ(RunAndRead(&fresh, bindings), first);
}

TEST(RepeatedRuns, AnIndexOutsideItsTableIsAnErrorAndTheNextRunIsRight) {
  Graph graph;
  Builder builder(&graph);
  const Value index = builder.IndexInput("index", Domain::kStep);
  const Value table = builder.Parameter("table", {4, 3});
  graph.AddOutput("y", builder.Apply(Op::kGather, {table, index}).id());
  Executable executable(graph, {.streams = 2});
  executable.SetShape(2, 2);
  const std::vector<float> rows = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  executable.Bind("table", rows);
  for (const int32_t outside : {4, -1}) {
    const std::vector<int32_t> bad = {0, 1, outside, 2};
    executable.BindIndices("index", bad);
    EXPECT_THAT(
        [&] { executable.Run(); },
        ThrowsMessage<Error>(HasSubstr(fmt::format("index {} is outside 0 to 3", outside))));
    const std::vector<int32_t> good = {3, 0, 0, 1};
    executable.BindIndices("index", good);
    executable.Run();
    EXPECT_THAT(executable.Output("y"),
                ::testing::ElementsAre(9, 10, 11, 0, 1, 2, 0, 1, 2, 3, 4, 5));
  }
}

// Of this process, in bytes; Linux. The sanitizers keep freed blocks and their own records
// resident, so that under them what is allocated and not yet freed is counted instead.
int64_t MemoryInUse() {
#if TL_SANITIZED
  return static_cast<int64_t>(__sanitizer_get_current_allocated_bytes());
#else
  std::ifstream file("/proc/self/statm");
  int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
#endif
}

TEST(RepeatedRuns, MemoryStopsGrowing) {
  constexpr int kRuns = RandomCases(1000);
  constexpr int64_t kMostSteps = 300;
  constexpr int64_t kB = 8;
  RecurrentOptions options = SmallOptions("lstm");
  options.size.hidden = 64;
  const Graph graph = WithGradients(RecurrentGraph(options));
  Bindings bindings = RandomBindings(graph, 1, {.steps = kMostSteps, .batch = kB, .ragged = false});
  std::map<std::string, std::vector<float>> values;
  for (const auto& [name, array] : bindings.values) values[name] = Narrow(array);
  Executable executable(graph, {.streams = 2});
  // The same lengths three times, since an executable keeps the plans of the last shapes, whose
  // sizes differ; the heap has found its shape behind the second time.
  constexpr size_t kTimes = 3;
  Dice dice(19);
  std::vector<int64_t> lengths = {kMostSteps};
  while (std::ssize(lengths) < kRuns / 3) lengths.push_back(dice.Integer(1, kMostSteps));
  int64_t planned_before = 0, used_before = 0;
  for (size_t run = 0; run < kTimes * lengths.size(); ++run) {
    const int64_t steps = lengths[run % lengths.size()];
    executable.SetShape(steps, kB);
    for (const NamedView& input : executable.lowered().inputs) {
      const std::vector<float>& all = values.at(input.name);
      const int64_t rows = input.domain == Domain::kStep ? steps * kB : kB;
      const int64_t count =
          input.domain == Domain::kStatic ? std::ssize(all) : rows * input.view.width;
      executable.Bind(input.name, std::span(all).first(static_cast<size_t>(count)));
    }
    executable.Run({.training = true});
    if (run == (kTimes - 1) * lengths.size() - 1) {
      planned_before = executable.memory_bytes();
      used_before = MemoryInUse();
    }
  }
  RecordProperty("planned_bytes", std::to_string(executable.memory_bytes()));
  RecordProperty("used_before", std::to_string(used_before));
  RecordProperty("used_at_end", std::to_string(MemoryInUse()));
  EXPECT_GT(planned_before, 0);
  EXPECT_EQ(executable.memory_bytes(), planned_before);
  EXPECT_LE(static_cast<double>(MemoryInUse()), 1.01 * static_cast<double>(used_before));
}

}  // namespace
}  // namespace turbolstm
