// Whole programs: random ones, over shapes, strides, dtypes and aliasing, against the reference.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/bfloat16.h"
#include "base/error.h"
#include "ops/cpu_target.h"
#include "ops/pointwise/emitter.h"
#include "ops/pointwise/kernel.h"
#include "ops/pointwise/testing/sample_programs.h"

namespace turbolstm {
namespace {

constexpr double kBFloat16Rounding = 0x1p-8;
constexpr unsigned char kUntouched = 0xA5;

// The memory of one slot with gaps between rows and room on both sides that nobody may touch.
class Matrix {
 public:
  Matrix(int64_t rows, int64_t n, int64_t gap, DType dtype)
      : rows_(rows), n_(n), stride_(n + gap), dtype_(dtype) {
    bytes_.assign((rows * stride_ + 2 * kMargin) * SizeOf(dtype), kUntouched);
  }

  PointwiseSlot Slot() { return {bytes_.data() + kMargin * SizeOf(dtype_), stride_, dtype_}; }

  double At(int64_t r, int64_t j) const {
    const unsigned char* from = Address(r, j);
    if (dtype_ == DType::kFloat32) return Read<float>(from);
    if (dtype_ == DType::kFloat64) return Read<double>(from);
    return static_cast<float>(Read<BFloat16>(from));
  }

  void Set(int64_t r, int64_t j, float value) {
    unsigned char* to = bytes_.data() + (Address(r, j) - bytes_.data());
    const BFloat16 narrow(value);
    if (dtype_ == DType::kFloat32) {
      std::memcpy(to, &value, sizeof(value));
    } else {
      std::memcpy(to, &narrow, sizeof(narrow));
    }
  }

  void Fill(std::mt19937_64& random) {
    std::uniform_real_distribution<float> uniform(-2.0f, 2.0f);
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t j = 0; j < n_; ++j) Set(r, j, uniform(random));
    }
  }

  // Everything but the elements still has the bytes of the constructor.
  bool MarginsUntouched() const {
    std::vector<unsigned char> copy = bytes_;
    for (int64_t r = 0; r < rows_; ++r) {
      if (n_ > 0)
        std::memset(copy.data() + (Address(r, 0) - bytes_.data()), kUntouched, n_ * SizeOf(dtype_));
    }
    return copy == std::vector<unsigned char>(copy.size(), kUntouched);
  }

  bool SameBytes(const Matrix& other) const { return bytes_ == other.bytes_; }
  DType dtype() const { return dtype_; }

 private:
  static constexpr int64_t kMargin = 19;  // odd: rows start at all alignments

  template <typename T>
  static T Read(const unsigned char* from) {
    T value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }

  const unsigned char* Address(int64_t r, int64_t j) const {
    return bytes_.data() + (kMargin + r * stride_ + j) * SizeOf(dtype_);
  }

  int64_t rows_, n_, stride_;
  DType dtype_;
  std::vector<unsigned char> bytes_;
};

std::vector<PointwiseSlot> Slots(std::vector<Matrix>& matrices) {
  std::vector<PointwiseSlot> slots;
  for (Matrix& matrix : matrices) slots.push_back(matrix.Slot());
  return slots;
}

struct Shape {
  int64_t rows, n;
};

constexpr Shape kShapes[] = {{0, 5},  {5, 0},  {1, 1},   {3, 1},   {300, 1}, {2, 7},   {7, 16},
                             {5, 17}, {4, 64}, {3, 255}, {1, 256}, {2, 257}, {3, 400}, {1, 1000}};

// One program with its tensors at one shape.
class Case {
 public:
  Case(const SampleProgram& sample, Shape shape, uint64_t seed)
      : sample_(sample), shape_(shape), random_(seed) {
    for (InputKind kind : sample.program.inputs) {
      const bool one_row = kind == InputKind::kRowVector || kind == InputKind::kScalar;
      const bool one_column = kind == InputKind::kColumn || kind == InputKind::kScalar;
      inputs_.emplace_back(one_row ? 1 : shape.rows, one_column ? 1 : shape.n, Gap(), AnyDType());
      inputs_.back().Fill(random_);
    }
    const size_t outputs = sample.program.outputs.size();
    for (size_t i = 0; i < outputs; ++i) {
      outputs_.emplace_back(shape.rows, shape.n, Gap(), AnyDType());
      wanted_.emplace_back(shape.rows, shape.n, 0, DType::kFloat64);
    }
    const auto in = Slots(inputs_);
    const auto out = Slots(wanted_);
    RunPointwiseReference(sample.program, {shape.rows, shape.n, in.data(), out.data()});
  }

  // Outputs of this kernel in fresh memory.
  std::vector<Matrix> Run(const PointwiseKernel& kernel) {
    std::vector<Matrix> outputs = outputs_;
    const auto in = Slots(inputs_);
    const auto out = Slots(outputs);
    kernel({shape_.rows, shape_.n, in.data(), out.data()});
    return outputs;
  }

  void ExpectRight(const PointwiseKernel& kernel) {
    const std::vector<Matrix> outputs = Run(kernel);
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_TRUE(outputs[i].MarginsUntouched()) << "output " << i << " " << Where();
      ExpectClose(outputs[i], i);
    }
    for (const Matrix& input : inputs_) EXPECT_TRUE(input.MarginsUntouched());
  }

  // The first output written over the first input gives the same bits.
  void ExpectRightInPlace(const PointwiseKernel& kernel) {
    outputs_[0] = inputs_[0];
    const std::vector<Matrix> apart = Run(kernel);
    std::vector<Matrix> inputs = inputs_;
    std::vector<Matrix> outputs = outputs_;
    const auto in = Slots(inputs);
    auto out = Slots(outputs);
    out[0] = in[0];
    kernel({shape_.rows, shape_.n, in.data(), out.data()});
    EXPECT_TRUE(inputs[0].SameBytes(apart[0])) << Where();
    for (size_t i = 1; i < outputs.size(); ++i) {
      EXPECT_TRUE(outputs[i].SameBytes(apart[i])) << "output " << i << " " << Where();
    }
  }

  // An element computed alone has the bits that it has among the others.
  void ExpectElementsIndependent(const PointwiseKernel& kernel) {
    if (shape_.rows == 0 || shape_.n == 0) return;
    const std::vector<Matrix> whole = Run(kernel);
    for (int repeat = 0; repeat < 3; ++repeat) {
      const int64_t r = Uniform(0, shape_.rows - 1);
      const int64_t j = Uniform(0, shape_.n - 1);
      std::vector<PointwiseSlot> in = Slots(inputs_);
      for (size_t i = 0; i < in.size(); ++i) Advance(sample_.program.inputs[i], r, j, in[i]);
      std::vector<Matrix> alone;
      for (const Matrix& output : whole) alone.emplace_back(1, 1, 0, output.dtype());
      const auto out = Slots(alone);
      kernel({1, 1, in.data(), out.data()});
      for (size_t i = 0; i < whole.size(); ++i) {
        EXPECT_EQ(alone[i].At(0, 0), whole[i].At(r, j)) << "output " << i << " " << Where();
      }
    }
  }

  std::string Where() const {
    return fmt::format("at {} x {}: {}", shape_.rows, shape_.n, sample_.program.Text());
  }

 private:
  int64_t Uniform(int64_t low, int64_t high) {
    return std::uniform_int_distribution(low, high)(random_);
  }
  int64_t Gap() { return Uniform(0, 1) * 5; }
  DType AnyDType() { return Uniform(0, 2) == 0 ? DType::kBFloat16 : DType::kFloat32; }

  static void Advance(InputKind kind, int64_t r, int64_t j, PointwiseSlot& slot) {
    int64_t offset = 0;
    if (kind == InputKind::kElement || kind == InputKind::kColumn) offset += r * slot.row_stride;
    if (kind == InputKind::kElement || kind == InputKind::kRowVector) offset += j;
    slot.data = static_cast<char*>(slot.data) + offset * static_cast<int64_t>(SizeOf(slot.dtype));
  }

  void ExpectClose(const Matrix& got, size_t output) {
    for (int64_t r = 0; r < shape_.rows; ++r) {
      for (int64_t j = 0; j < shape_.n; ++j) {
        const double want = wanted_[output].At(r, j);
        double allowed = sample_.tolerances[output] + 1e-30;
        if (got.dtype() == DType::kBFloat16) allowed += std::abs(want) * kBFloat16Rounding;
        ASSERT_LE(std::abs(got.At(r, j) - want), allowed)
            << "output " << output << " element " << r << " " << j << " " << Where();
      }
    }
  }

  const SampleProgram& sample_;
  Shape shape_;
  std::mt19937_64 random_;
  std::vector<Matrix> inputs_;
  std::vector<Matrix> outputs_;
  std::vector<Matrix> wanted_;
};

class PointwisePrograms : public testing::TestWithParam<CpuTarget> {
 protected:
  void SetUp() override { SetCpuTarget(GetParam()); }
  void TearDown() override { SetCpuTarget(AvailableCpuTargets().back()); }
};

INSTANTIATE_TEST_SUITE_P(, PointwisePrograms, testing::ValuesIn(AvailableCpuTargets()),
                         [](const auto& target) { return std::string(Name(target.param)); });

TEST_P(PointwisePrograms, InterpreterMatchesReference) {
  for (uint64_t seed = 0; seed < 300 && !HasFailure(); ++seed) {
    const SampleProgram sample = RandomPointwiseProgram(seed);
    const PointwiseKernel kernel = InterpretPointwise(sample.program);
    const Shape shape = kShapes[seed % std::size(kShapes)];
    Case(sample, shape, seed).ExpectRight(kernel);
    Case(sample, shape, seed).ExpectRightInPlace(kernel);
    Case(sample, shape, seed).ExpectElementsIndependent(kernel);
  }
}

TEST_P(PointwisePrograms, KernelsAheadOfTimeHaveTheBitsOfTheInterpreter) {
  RegisterSampleKernels();
  uint64_t seed = 0;
  for (const SampleProgram& sample : AheadOfTimeSamples()) {
    const PointwiseKernel kernel = CompilePointwise(sample.program);
    ASSERT_TRUE(kernel.AheadOfTime()) << sample.program.Text();
    const PointwiseKernel interpreted = InterpretPointwise(sample.program);
    for (Shape shape : kShapes) {
      Case(sample, shape, ++seed).ExpectRight(kernel);
      Case(sample, shape, seed).ExpectRightInPlace(kernel);
      Case(sample, shape, seed).ExpectElementsIndependent(kernel);
      Case both(sample, shape, seed);
      const std::vector<Matrix> a = both.Run(kernel);
      const std::vector<Matrix> b = both.Run(interpreted);
      for (size_t i = 0; i < a.size(); ++i) {
        EXPECT_TRUE(a[i].SameBytes(b[i])) << "output " << i << " " << both.Where();
      }
      if (HasFailure()) return;
    }
  }
}

TEST(Pointwise, EmitterRefusesNamesThatDoNotCompile) {
  const PointwiseProgram copy{{InputKind::kElement}, {}, {}, {0}};
  const std::vector<NamedPointwiseProgram> twice{{"A", copy}, {"A", copy}};
  EXPECT_THROW(EmitPointwiseSource(twice, "Register", "a.cpp"), Error);
  const std::vector<NamedPointwiseProgram> spaced{{"A b", copy}};
  EXPECT_THROW(EmitPointwiseSource(spaced, "Register", "a.cpp"), Error);
}

TEST(Pointwise, RandomProgramsUseEveryOperator) {
  std::vector<int> uses(kPointwiseOpCount);
  for (uint64_t seed = 0; seed < 300; ++seed) {
    for (const auto& instruction : RandomPointwiseProgram(seed).program.code) {
      ++uses[static_cast<size_t>(instruction.op)];
    }
  }
  for (int k = 0; k < kPointwiseOpCount; ++k) {
    EXPECT_GT(uses[k], 10) << Name(static_cast<PointwiseOp>(k));
  }
}

TEST(Pointwise, OutputsThatAreInputsCanBeSwappedInPlace) {
  const PointwiseProgram swap{{InputKind::kElement, InputKind::kElement}, {}, {}, {1, 0}};
  for (int64_t n : {3, 64, 300}) {
    std::vector<float> a(n, 1.0f), b(n, 2.0f);
    const std::vector<PointwiseSlot> slots{{a.data(), n}, {b.data(), n}};
    CompilePointwise(swap)({1, n, slots.data(), slots.data()});
    EXPECT_EQ(a, std::vector<float>(n, 2.0f));
    EXPECT_EQ(b, std::vector<float>(n, 1.0f));
  }
}

TEST(Pointwise, BFloat16RoundsLikeTheScalarType) {
  const PointwiseProgram copy{{InputKind::kElement}, {}, {}, {0}};
  std::vector<float> x{1.0f, 1.00390625f, 1.01171875f, 3.4e38f, std::nanf(""), -0.0f};
  std::mt19937 random(3);
  while (x.size() < 100) x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  std::vector<BFloat16> y(x.size());
  const PointwiseSlot in{x.data(), 0, DType::kFloat32};
  const PointwiseSlot out{y.data(), 0, DType::kBFloat16};
  CompilePointwise(copy)({1, static_cast<int64_t>(x.size()), &in, &out});
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i].bits, BFloat16(x[i]).bits) << x[i];
}

void ExpectError(const std::string& text, const PointwiseProgram& program) {
  try {
    CompilePointwise(program);
    FAIL() << "no error, wanted: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), text);
  }
}

TEST(Pointwise, ErrorsNameTheValue) {
  using enum PointwiseOp;
  ExpectError("[pointwise] value 1 (add) reads value 1, wants one of 0 to 0",
              {{InputKind::kElement}, {}, {{kAdd, 0, 1, 0}}, {1}});
  ExpectError("[pointwise] value 1 (neg) takes 1 operands, got one more: 7",
              {{InputKind::kElement}, {}, {{kNeg, 0, 7, 0}}, {1}});
  ExpectError("[pointwise] output is value 9, wants one of 0 to 0",
              {{InputKind::kElement}, {}, {}, {9}});
  const PointwiseSlot slot{nullptr, 0, DType::kInt32};
  const PointwiseKernel copy = CompilePointwise({{InputKind::kElement}, {}, {}, {0}});
  EXPECT_THROW(copy({0, 0, &slot, &slot}), Error);
}

TEST(Pointwise, TextSaysEverything) {
  const PointwiseProgram program{
      {InputKind::kElement, InputKind::kRowVector, InputKind::kColumn, InputKind::kScalar},
      {0.5},
      {{PointwiseOp::kMul, 0, 4, 0}, {PointwiseOp::kSelect, 3, 5, 2}},
      {6, 0}};
  EXPECT_EQ(program.Text(), "in e r c s; 4=0.5; 5=mul 0 4; 6=select 3 5 2; out 6 0");
}

TEST(Pointwise, CostCountsOperationsAndBytes) {
  const PointwiseCost cost = LstmForwardProgram().Cost(2, 8, 4);
  EXPECT_EQ(cost.flops, 16 * (5 * 10 + 4));
  EXPECT_EQ(cost.bytes, 16 * 12 * 4);
}

}  // namespace
}  // namespace turbolstm
