#include "plan/race.h"

#include <algorithm>
#include <chrono>

namespace turbolstm {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double TimeOfRun(Executable* executable) {
  executable->ParametersChanged();
  const Clock::time_point begin = Clock::now();
  executable->Run({.training = true});
  return SecondsSince(begin);
}

double MedianOf(std::vector<double> times) {
  std::ranges::sort(times);
  const size_t middle = times.size() / 2;
  return times.size() % 2 == 1 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
}

}  // namespace

std::vector<Lap> RacePlans(std::span<const Plan> plans, const RaceOptions& options,
                           Executable* executable) {
  constexpr int kLeastRounds = 2;
  std::vector<std::vector<double>> times(plans.size());
  std::vector<bool> dropped(plans.size(), false);
  const Clock::time_point begin = Clock::now();
  for (int round = 0; round < kLeastRounds || SecondsSince(begin) < options.seconds; ++round) {
    double best = 0;
    for (size_t turn = 0; turn < plans.size(); ++turn) {
      // Each way by turns, so that nobody always follows the same other one.
      const size_t i = round % 2 == 0 ? turn : plans.size() - 1 - turn;
      if (dropped[i]) continue;
      executable->Use(plans[i]);
      TimeOfRun(executable);  // brings code and memory near
      times[i].push_back(TimeOfRun(executable));
      const double median = MedianOf(times[i]);
      if (best == 0 || median < best) best = median;
      if (round >= kLeastRounds && SecondsSince(begin) >= options.seconds) break;
    }
    if (round == 0) continue;
    for (size_t i = 0; i < plans.size(); ++i) {
      dropped[i] = dropped[i] || MedianOf(times[i]) > options.drop_beyond * best;
    }
  }
  std::vector<Lap> laps;
  for (const std::vector<double>& all : times) {
    laps.push_back({MedianOf(all), *std::ranges::min_element(all), static_cast<int>(all.size())});
  }
  return laps;
}

}  // namespace turbolstm
