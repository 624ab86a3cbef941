#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace turbolstm {

// Philox 4x32-10 (Salmon et al., SC 2011): four 32-bit random words from a 128-bit counter and a
// 64-bit key. Counter-based, so a draw depends on what it is for and never on who draws it when.
inline std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                          std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// A stream of draws for one purpose. Draw i is the same whatever the thread, plan or backend.
struct RandomSite {
  uint64_t seed = 0;
  uint32_t step = 0;  // training step
  uint32_t site = 0;  // which random node of the network

  // Draws 4 * block to 4 * block + 3.
  std::array<uint32_t, 4> Block(uint64_t block) const {
    return Philox4x32(
        {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), step, site},
        {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  }
  uint32_t Bits(uint64_t index) const { return Block(index / 4)[index % 4]; }
  // In [0, 1), 24 bits.
  static float UniformFrom(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }
  float Uniform(uint64_t index) const { return UniformFrom(Bits(index)); }
  // What draws are to be compared with in fp32: the least float that is not below the probability.
  // They are less than the one where they are less than the other.
  static float Bound(double probability) {
    const auto near = static_cast<float>(probability);
    return double{near} < probability ? std::nextafter(near, 2.0f) : near;
  }
};

}  // namespace turbolstm
