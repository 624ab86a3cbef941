#pragma once

#include <chrono>
#include <thread>

namespace turbolstm {

// Tells the core that this thread only waits, so that its sibling may run.
inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Asks `ready` again and again without giving the core away, for at most `limit`; whether it became
// true.
template <typename Ready>
bool SpinUntil(Ready ready, std::chrono::nanoseconds limit) {
  if (ready()) return true;
  if (limit <= limit.zero()) return false;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  do {
    // The clock costs more than a look at a flag, so it is read now and then only.
    for (int i = 0; i < 32; ++i) {
      CpuRelax();
      if (ready()) return true;
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return false;
}

// Returns once `ready` is true: spins for `spin`, then lets other threads have the core whenever
// they want it, then naps. A thread that waits costs others little, and notices the end of a wait
// of a few milliseconds at once; only a longer one it notices up to a tenth of a millisecond late.
template <typename Ready>
void WaitUntil(Ready ready, std::chrono::nanoseconds spin) {
  constexpr std::chrono::milliseconds kYield(3);
  constexpr std::chrono::microseconds kNap(50);
  if (SpinUntil(ready, spin)) return;
  const auto deadline = std::chrono::steady_clock::now() + kYield;
  do {
    if (ready()) return;
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < deadline);
  while (!ready()) std::this_thread::sleep_for(kNap);
}

}  // namespace turbolstm
