#pragma once

namespace turbolstm::cli {

// While it lives, the first SIGINT or SIGTERM is noted instead of ending the program; a second one
// ends it at once.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // The signal that came, or 0.
  static int Signal();
};

}  // namespace turbolstm::cli
