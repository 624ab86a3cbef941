#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace turbolstm::bench {

// One network that a benchmark runs.
struct Case {
  std::string name;  // "lstm_T100_B32_I128_H256_L1", then "_bi" and "_uniform" where they apply
  std::string cell;  // "lstm", "gru" or "rnn_tanh"
  int64_t T = 0, B = 0, I = 0, H = 0, L = 1;
  bool bidirectional = false;
  bool uniform_lengths = false;

  int64_t directions() const { return bidirectional ? 2 : 1; }
  // Steps of each row: all T, or unsorted and uniform over 1..T, the same in every program. [B]
  std::vector<int64_t> Lengths() const;
  // 10^9 floating-point operations of the matrix products of a forward pass over the valid steps
  // (padding is not counted); a training step has three times as many.
  double ForwardGflop() const;
};

// Reads shapes.json or shapes_gpu.json: every shape with every one of the file's cells, or with its
// own. Throws Error naming the file.
std::vector<Case> ReadCases(const std::filesystem::path& path);

}  // namespace turbolstm::bench
