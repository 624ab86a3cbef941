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
  // Of a training step of a whole model, else empty and 0. I is the width of the embedding, `cell`
  // the model's name.
  std::string model = "";
  int64_t vocabulary = 0, classes = 0;

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
// Its training steps of whole models: "imdb", a classifier of texts (embedding, LSTM, mean over
// time, linear, cross-entropy, Adam).
std::vector<Case> ReadModels(const std::filesystem::path& path);

}  // namespace turbolstm::bench
