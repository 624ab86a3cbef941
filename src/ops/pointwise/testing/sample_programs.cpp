#include "ops/pointwise/testing/sample_programs.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace turbolstm {
namespace {

constexpr double kRounding = 0x1p-22;  // of one operator, relative to the largest result
constexpr double kLargest = 16;
constexpr double kWorstError = 1e-3;

// What is known of a value: its range, and how far fp32 may be from double.
struct Known {
  double low, high, error;

  double Magnitude() const { return std::max(std::abs(low), std::abs(high)); }
  bool Positive() const { return low >= 0.25; }
};

class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  SampleProgram Draw() {
    const int inputs = Uniform(1, 5);
    for (int i = 0; i < inputs; ++i) {
      program_.inputs.push_back(static_cast<InputKind>(i == 0 ? 0 : Uniform(0, 3)));
      known_.push_back({-2, 2, 0});
    }
    program_.constants = {0.75, -0.3};
    for (double constant : program_.constants) {
      known_.push_back({constant, constant, std::abs(constant) * kRounding});
    }
    const int length = Uniform(1, 24);
    while (static_cast<int>(program_.code.size()) < length) Step();
    SampleProgram sample{program_, {}};
    const int outputs = Uniform(1, 3);
    for (int i = 0; i < outputs; ++i) {
      const int value = i == 0 ? program_.ValueCount() - 1 : Uniform(0, program_.ValueCount() - 1);
      sample.program.outputs.push_back(value);
      sample.tolerances.push_back(known_[value].error);
    }
    return sample;
  }

 private:
  int Uniform(int low, int high) { return std::uniform_int_distribution(low, high)(random_); }
  int AnyValue() { return Uniform(0, static_cast<int>(known_.size()) - 1); }

  // Comparisons are only stable on values that are the same in both precisions.
  int ExactValue() { return Uniform(0, static_cast<int>(program_.inputs.size()) - 1); }

  int Emit(PointwiseInstruction instruction, Known known) {
    program_.code.push_back(instruction);
    known_.push_back(known);
    return static_cast<int>(known_.size()) - 1;
  }

  // |value| + 0.75
  int MakePositive(int value) {
    if (known_[value].Positive()) return value;
    const Known k = known_[value];
    const int abs = Emit({PointwiseOp::kAbs, value}, {0, k.Magnitude(), k.error});
    const Known sum{0.75, k.Magnitude() + 0.75, k.error + 20 * kRounding};
    return Emit({PointwiseOp::kAdd, abs, program_.FirstConstant()}, sum);
  }

  void Step() {
    const auto op = static_cast<PointwiseOp>(Uniform(0, kPointwiseOpCount - 1));
    if (op == PointwiseOp::kGreater) {
      Emit({op, ExactValue(), ExactValue()}, {0, 1, 0});
    } else if (op == PointwiseOp::kSelect) {
      const int b = AnyValue(), c = AnyValue();
      Emit({op, ExactValue(), b, c}, Hull(known_[b], known_[c]));
    } else if (OperandCount(op) == 2) {
      Binary(op, AnyValue(), AnyValue());
    } else {
      Unary(op, AnyValue());
    }
  }

  static Known Hull(const Known& b, const Known& c) {
    return {std::min(b.low, c.low), std::max(b.high, c.high), std::max(b.error, c.error)};
  }

  // Emits unless the result would be too large or too uncertain.
  void EmitIfTame(PointwiseInstruction instruction, Known known) {
    if (known.Magnitude() <= kLargest && known.error <= kWorstError) Emit(instruction, known);
  }

  void Binary(PointwiseOp op, int a, int b) {
    if (op == PointwiseOp::kDiv) b = MakePositive(b);
    const Known x = known_[a], y = known_[b];
    const double sum = x.error + y.error + 2 * kLargest * kRounding;
    const double both = x.Magnitude() + y.Magnitude();
    const double product = x.Magnitude() * y.Magnitude();
    if (op == PointwiseOp::kAdd || op == PointwiseOp::kSub) {
      EmitIfTame({op, a, b}, {-both, both, sum});
    } else if (op == PointwiseOp::kMul) {
      const double error = x.error * y.Magnitude() + y.error * x.Magnitude() + sum;
      EmitIfTame({op, a, b}, {-product, product, error});
    } else if (op == PointwiseOp::kDiv) {
      const double largest = x.Magnitude() / y.low;
      EmitIfTame({op, a, b}, {-largest, largest, 2 * (sum + y.error * largest) / y.low});
    } else {
      EmitIfTame({op, a, b}, Hull(x, y));
    }
  }

  void Unary(PointwiseOp op, int a) {
    using enum PointwiseOp;
    if (op == kLog || op == kSqrt || op == kRsqrt || op == kReciprocal) a = MakePositive(a);
    const Known x = known_[a];
    const double error = x.error + 2 * kLargest * kRounding;
    const double m = x.Magnitude();
    switch (op) {
      case kSigmoid:
        return EmitIfTame({op, a}, {0, 1, error});
      case kTanh:
      case kSin:
      case kCos:
        return EmitIfTame({op, a}, {-1, 1, error});
      case kExp:
        return EmitIfTame({op, a},
                          {std::exp(x.low), std::exp(x.high), 2 * error * std::exp(x.high)});
      case kLog:
        return EmitIfTame({op, a}, {std::log(x.low), std::log(x.high), 2 * error / x.low});
      case kSqrt:
        return EmitIfTame({op, a}, {std::sqrt(x.low), std::sqrt(x.high), 2 * error / x.low});
      case kRsqrt:
        return EmitIfTame(
            {op, a}, {1 / std::sqrt(x.high), 1 / std::sqrt(x.low), 2 * error / (x.low * x.low)});
      case kReciprocal:
        return EmitIfTame({op, a}, {1 / x.high, 1 / x.low, 2 * error / (x.low * x.low)});
      case kSoftplus:
        return EmitIfTame({op, a}, {0, m + 1, error});
      case kLogSigmoid:
        return EmitIfTame({op, a}, {-m - 1, 0, error});
      case kOneMinus:
        return EmitIfTame({op, a}, {-m - 1, m + 1, error});
      default:  // kNeg, kAbs, kRelu, kCopy: exact
        return EmitIfTame({op, a}, {-m, m, x.error});
    }
  }

  std::mt19937_64 random_;
  PointwiseProgram program_;
  std::vector<Known> known_;
};

}  // namespace

SampleProgram RandomPointwiseProgram(uint64_t seed) {
  return Generator(seed).Draw();
}

PointwiseProgram LstmForwardProgram() {
  using enum PointwiseOp;
  PointwiseProgram program{std::vector<InputKind>(5, InputKind::kElement), {}, {}, {}};
  program.code = {
      {kSigmoid, 0},  // 5: i
      {kSigmoid, 1},  // 6: f
      {kTanh, 2},     // 7: g
      {kSigmoid, 3},  // 8: o
      {kMul, 6, 4},   // 9: f c'
      {kMul, 5, 7},   // 10: i g
      {kAdd, 9, 10},  // 11: c
      {kTanh, 11},    // 12
      {kMul, 8, 12},  // 13: h
  };
  program.outputs = {5, 6, 7, 8, 11, 12, 13};
  return program;
}

PointwiseProgram LstmBackwardProgram() {
  using enum PointwiseOp;
  PointwiseProgram program{std::vector<InputKind>(8, InputKind::kElement), {}, {}, {}};
  program.code = {
      {kMul, 5, 5},     // 8: tanh(c)^2
      {kOneMinus, 8},   // 9
      {kMul, 6, 3},     // 10: dh o
      {kMul, 10, 9},    // 11
      {kAdd, 7, 11},    // 12: dc
      {kMul, 6, 5},     // 13: do
      {kMul, 12, 2},    // 14: di
      {kMul, 12, 4},    // 15: df
      {kMul, 12, 0},    // 16: dg
      {kMul, 12, 1},    // 17: gradient of c'
      {kOneMinus, 0},   // 18
      {kMul, 0, 18},    // 19: sigmoid' at i
      {kMul, 14, 19},   // 20: gradient of i's pre-activation
      {kOneMinus, 1},   // 21
      {kMul, 1, 21},    // 22
      {kMul, 15, 22},   // 23
      {kMul, 2, 2},     // 24
      {kOneMinus, 24},  // 25
      {kMul, 16, 25},   // 26
      {kOneMinus, 3},   // 27
      {kMul, 3, 27},    // 28
      {kMul, 13, 28},   // 29
  };
  program.outputs = {20, 23, 26, 29, 17};
  return program;
}

std::vector<SampleProgram> AheadOfTimeSamples() {
  constexpr double kLstmTolerance = 1e-5;
  std::vector<SampleProgram> samples;
  for (const PointwiseProgram& program : {LstmForwardProgram(), LstmBackwardProgram()}) {
    samples.push_back({program, std::vector<double>(program.outputs.size(), kLstmTolerance)});
  }
  for (uint64_t seed = 0; seed < 16; ++seed) samples.push_back(RandomPointwiseProgram(seed));
  return samples;
}

}  // namespace turbolstm
