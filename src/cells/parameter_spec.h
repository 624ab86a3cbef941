#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace turbolstm {

// How the elements of a parameter are drawn.
struct Initializer {
  enum class Kind : uint8_t { kConstant, kUniform, kNormal };
  Kind kind = Kind::kConstant;
  double first = 0;   // the constant; the least value; the mean
  double second = 0;  // the bound that is never reached; the standard deviation

  static Initializer Constant(double value) { return {Kind::kConstant, value, value}; }
  static Initializer Uniform(double low, double high) { return {Kind::kUniform, low, high}; }
  // Uniform in [-1/sqrt(n), 1/sqrt(n)): what PyTorch draws its recurrent and linear layers from.
  static Initializer UniformFan(int64_t n);
  static Initializer Normal(double mean, double deviation) {
    return {Kind::kNormal, mean, deviation};
  }
  bool operator==(const Initializer&) const = default;
};

struct ParameterSpec {
  // Rows (of the first axis) that are drawn differently, for example the forget gate's bias.
  struct Rows {
    int64_t begin = 0;
    int64_t size = 0;
    Initializer init;
  };

  std::string name;
  std::vector<int64_t> shape;
  Initializer init;
  std::vector<Rows> rows;
};

// Initial values in row-major order. They depend on the seed, the name and the shape only, so
// adding a layer does not change the others.
std::vector<float> DrawParameter(const ParameterSpec& spec, uint64_t seed);

}  // namespace turbolstm
