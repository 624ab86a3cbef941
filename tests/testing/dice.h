#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace turbolstm {

// Choices that are the same for the same seed on every platform.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}

  // In [low, high].
  int64_t Integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  // In [low, high).
  double Real(double low, double high) {
    return low + (high - low) * static_cast<double>(engine_() >> 11) * 0x1p-53;
  }
  bool Chance(double probability) { return Real(0, 1) < probability; }
  template <typename T>
  const T& Pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(Integer(0, static_cast<int64_t>(from.size()) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace turbolstm
