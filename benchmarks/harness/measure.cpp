#include "harness/measure.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace turbolstm::bench {
namespace {

constexpr int kWarmUps = 2;
constexpr int kFewestRuns = 5;
constexpr int kMostRuns = 2000;

// The value below which `fraction` of the sorted values lie, interpolated.
double Quantile(const std::vector<double>& sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Timing Summarise(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {.median = Quantile(times, 0.5),
          .min = times.front(),
          .q1 = Quantile(times, 0.25),
          .q3 = Quantile(times, 0.75),
          .runs = static_cast<int>(times.size())};
}

Timing Measure(const std::function<void()>& function, double min_seconds) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < kWarmUps; ++i) function();
  std::vector<double> times;
  double total = 0;
  while (static_cast<int>(times.size()) < kMostRuns &&
         (static_cast<int>(times.size()) < kFewestRuns || total < min_seconds)) {
    const Clock::time_point start = Clock::now();
    function();
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    times.push_back(elapsed.count() * 1e3);
    total += elapsed.count();
  }
  return Summarise(std::move(times));
}

}  // namespace turbolstm::bench
