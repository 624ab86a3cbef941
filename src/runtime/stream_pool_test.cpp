#include "runtime/stream_pool.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>

#include "base/error.h"

namespace turbolstm {
namespace {

using Lists = std::vector<std::vector<int32_t>>;

// `length` tasks on each stream; each waits for the one before it on the stream before its own.
StreamProgram Wavefront(int streams, int length) {
  Lists order(streams), waits(static_cast<size_t>(streams) * length);
  for (int s = 0; s < streams; ++s) {
    for (int p = 0; p < length; ++p) {
      const int task = s * length + p;
      order[s].push_back(task);
      if (p > 0) waits[task].push_back((s + streams - 1) % streams * length + p - 1);
      if (streams == 1) waits[task].clear();
    }
  }
  return StreamProgram(order, waits);
}

TEST(StreamPool, RunsEveryTaskOnItsStreamInOrder) {
  constexpr int kStreams = 4, kLength = 25;
  StreamPool pool(kStreams);
  const StreamProgram program = Wavefront(kStreams, kLength);
  std::vector<std::vector<int32_t>> ran(kStreams);
  pool.Run(program, [&](int32_t task, int stream) { ran[stream].push_back(task); });
  for (int s = 0; s < kStreams; ++s) {
    std::vector<int32_t> expected(kLength);
    std::iota(expected.begin(), expected.end(), s * kLength);
    EXPECT_EQ(ran[s], expected);
  }
}

TEST(StreamPool, ShowsWritesToWhoWaits) {
  constexpr int kStreams = 3, kLength = 50;
  StreamPool pool(kStreams);
  const StreamProgram program = Wavefront(kStreams, kLength);
  for (int run = 0; run < 200; ++run) {
    // Plain memory: the thread sanitizer sees it if waiting does not order the accesses.
    std::vector<int> value(static_cast<size_t>(kStreams) * kLength, 0);
    pool.Run(program, [&](int32_t task, int stream) {
      const int position = task % kLength;
      const int before = (stream + kStreams - 1) % kStreams * kLength + position - 1;
      value[task] = position == 0 ? run : value[before] + 1;
    });
    for (int s = 0; s < kStreams; ++s) {
      EXPECT_EQ(value[(s + 1) * kLength - 1], run + kLength - 1);
    }
  }
}

TEST(StreamPool, RunsProgramsWithFewerStreamsAndEmptyOnes) {
  StreamPool pool(4);
  int ran = 0;
  pool.Run(StreamProgram(Lists{{0, 1}}, Lists{{}, {}}), [&](int32_t, int) { ++ran; });
  EXPECT_EQ(ran, 2);
  pool.Run(StreamProgram(Lists{{}, {}, {0}}, Lists{{}}), [&](int32_t, int stream) {
    EXPECT_EQ(stream, 2);
    ++ran;
  });
  EXPECT_EQ(ran, 3);
  pool.Run(StreamProgram(), [&](int32_t, int) { ++ran; });
  EXPECT_EQ(ran, 3);
}

TEST(StreamPool, ThrowsTheFailureOfATaskAndStaysUsable) {
  constexpr int kStreams = 3, kLength = 20;
  StreamPool pool(kStreams);
  const StreamProgram program = Wavefront(kStreams, kLength);
  for (int failing = 0; failing < kStreams * kLength; failing += 7) {
    std::atomic<int> ran{0};
    try {
      pool.Run(program, [&](int32_t task, int) {
        if (task == failing) throw std::runtime_error(std::to_string(task));
        ++ran;
      });
      FAIL() << "nothing thrown for task " << failing;
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(error.what(), std::to_string(failing));
    }
    EXPECT_LT(ran, kStreams * kLength);
    ran = 0;
    pool.Run(program, [&](int32_t, int) { ++ran; });
    EXPECT_EQ(ran, kStreams * kLength);
  }
}

TEST(StreamPool, ThrowsTheFailureOfTheFirstTask) {
  StreamPool pool(3);
  // All three fail for certain: none ends before the others have begun.
  const StreamProgram program(Lists{{2}, {0}, {1}}, Lists{{}, {}, {}});
  std::atomic<int> begun{0};
  try {
    pool.Run(program, [&](int32_t task, int) {
      ++begun;
      while (begun < 3) std::this_thread::yield();
      throw std::runtime_error(std::to_string(task));
    });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "0");
  }
}

TEST(StreamPool, StopsStreamsThatWaitForAFailedTask) {
  StreamPool pool(2);
  const StreamProgram program(Lists{{1}, {0}}, Lists{{}, {0}});
  bool ran = false;
  EXPECT_THROW(pool.Run(program,
                        [&](int32_t task, int) {
                          if (task == 0) throw std::runtime_error("fails");
                          ran = true;
                        }),
               std::runtime_error);
  EXPECT_FALSE(ran);
}

TEST(StreamPool, RecordsTimesThatKeepTheOrder) {
  StreamPool pool(2);
  const StreamProgram program(Lists{{0, 2}, {1}}, Lists{{}, {0}, {1}});
  std::vector<TaskTime> times(3);
  pool.Run(
      program, [](int32_t, int) { std::this_thread::sleep_for(std::chrono::microseconds(200)); },
      times);
  for (const TaskTime& time : times) EXPECT_GE(time.finish - time.start, 200e-6);
  EXPECT_LE(times[0].finish, times[1].start);
  EXPECT_LE(times[1].finish, times[2].start);
}

TEST(StreamPool, WakesParkedWorkers) {
  StreamPool pool(3);
  const StreamProgram program = Wavefront(3, 4);
  for (int run = 0; run < 20; ++run) {
    int ran[3] = {};
    pool.Run(program, [&](int32_t, int stream) { ++ran[stream]; });
    EXPECT_EQ(ran[0] + ran[1] + ran[2], 12);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // longer than workers spin
  }
}

TEST(StreamPool, WorksWithManyMoreStreamsThanCores) {
  constexpr int kStreams = 24, kLength = 10;
  StreamPool pool(kStreams, {.pin = true});
  const StreamProgram program = Wavefront(kStreams, kLength);
  for (int run = 0; run < 10; ++run) {
    std::atomic<int> ran{0};
    pool.Run(program, [&](int32_t, int) { ++ran; });
    EXPECT_EQ(ran, kStreams * kLength);
  }
}

TEST(StreamPool, RefusesWrongUse) {
  EXPECT_THROW(StreamPool(0), Error);
  StreamPool pool(2);
  const auto nothing = [](int32_t, int) {};
  EXPECT_THROW(pool.Run(Wavefront(3, 1), nothing), Error);
  std::vector<TaskTime> times(1);
  EXPECT_THROW(pool.Run(Wavefront(2, 1), nothing, times), Error);
  const StreamProgram program = Wavefront(2, 1);
  EXPECT_THROW(pool.Run(program, [&](int32_t, int) { pool.Run(program, nothing); }), Error);
  EXPECT_NO_THROW(pool.Run(program, nothing));
}

TEST(StreamProgram, RefusesTasksThatAreMissingTwiceOrUnknown) {
  EXPECT_THROW(StreamProgram(Lists{{0}}, Lists{{}, {}}), Error);
  EXPECT_THROW(StreamProgram(Lists{{0, 0}}, Lists{{}}), Error);
  EXPECT_THROW(StreamProgram(Lists{{0, 1}}, Lists{{}}), Error);
  EXPECT_THROW(StreamProgram(Lists{{0}}, Lists{{0}}), Error);
  EXPECT_THROW(StreamProgram(Lists{{0}}, Lists{{1}}), Error);
}

}  // namespace
}  // namespace turbolstm
