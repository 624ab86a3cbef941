#pragma once

#include <functional>
#include <vector>

#include "base/peak_memory.h"

namespace turbolstm::bench {

// Times of one call in milliseconds.
struct Timing {
  double median = 0, min = 0, q1 = 0, q3 = 0;
  int runs = 0;
};

// Median, quartiles and least of at least one time in milliseconds.
Timing Summarise(std::vector<double> times);

// Calls `function` twice to warm up, then at least five times and until `min_seconds` have passed.
Timing Measure(const std::function<void()>& function, double min_seconds);

}  // namespace turbolstm::bench
