#pragma once

#include <functional>
#include <vector>

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

// Peak of this process' resident memory since construction over what was resident then, in MiB.
// Memory that earlier cases freed is given back first, so that it does not hide what this one
// takes. Linux with glibc only; answers 0 where the kernel does not let a process reset its peak.
class PeakMemory {
 public:
  PeakMemory();
  double Mebibytes() const;

 private:
  double start_ = 0;
  bool works_ = false;
};

}  // namespace turbolstm::bench
