#include "harness/activity.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace turbolstm::bench {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

Activity Kernel(int64_t start_ms, int64_t end_ms, uint32_t launch, bool replayed = true) {
  return {.name = "k",
          .start = start_ms * kMillisecond,
          .end = end_ms * kMillisecond,
          .launch = launch,
          .replayed = replayed};
}

Activity Wait(int64_t start_ms, int64_t end_ms) {
  Activity wait = Kernel(start_ms, end_ms, 0, false);
  wait.kind = Activity::Kind::kWait;
  return wait;
}

TEST(Idleness, TellsWithinReplaysFromBetweenThem) {
  // Overlapping kernels, a gap of 2 within the first replay, of 3 before a copy, of 1 behind it.
  const Idleness idleness =
      IdlenessOf({Wait(0, 50), Kernel(10, 14, 1), Kernel(11, 13, 1), Kernel(12, 15, 1),
                  Kernel(17, 20, 1), Kernel(23, 24, 2, false), Kernel(25, 30, 3)});
  EXPECT_DOUBLE_EQ(idleness.span_ms, 20);
  EXPECT_DOUBLE_EQ(idleness.within_ms, 2);
  EXPECT_DOUBLE_EQ(idleness.between_ms, 4);
  EXPECT_DOUBLE_EQ(idleness.busy_ms, 14);
}

TEST(Idleness, OfNothingIsNothing) {
  EXPECT_EQ(IdlenessOf({}).span_ms, 0);
  EXPECT_EQ(IdlenessOf({Wait(0, 1)}).span_ms, 0);
}

TEST(ChromeTrace, HasAnEventForEachActivity) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("turbolstm_trace_" + std::to_string(getpid()) + ".json");
  WriteChromeTrace({Kernel(10, 14, 1), Wait(12, 13)}, path);
  std::ifstream file(path);
  const auto events = nlohmann::json::parse(file).at("traceEvents");
  std::filesystem::remove(path);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].at("pid"), "device");
  EXPECT_EQ(events[0].at("dur"), 4000);  // microseconds
  EXPECT_EQ(events[1].at("pid"), "host");
  EXPECT_EQ(events[1].at("ts"), 2000);
}

}  // namespace
}  // namespace turbolstm::bench
