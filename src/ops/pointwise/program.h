#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace turbolstm {

// Operators on single elements. NaN passes through every one of them but kGreater.
enum class PointwiseOp : uint8_t {
  kAdd,         // a + b
  kSub,         // a - b
  kMul,         // a * b
  kDiv,         // a / b
  kMax,         // the larger; NaN if either is
  kMin,         // the smaller; NaN if either is
  kNeg,         // -a
  kOneMinus,    // 1 - a
  kSigmoid,     // 1 / (1 + exp(-a))
  kTanh,        //
  kRelu,        // max(a, 0)
  kSoftplus,    // log(1 + exp(a))
  kLogSigmoid,  // log(sigmoid(a))
  kExp,         //
  kLog,         // natural; -inf at 0, NaN below
  kSqrt,        //
  kRsqrt,       // 1 / sqrt(a)
  kReciprocal,  // 1 / a
  kAbs,         //
  kSin,         //
  kCos,         //
  kGreater,     // a > b ? 1 : 0; 0 if either is NaN
  kSelect,      // a != 0 ? b : c; NaN counts as not 0
  kCopy,        // a
};

inline constexpr int kPointwiseOpCount = static_cast<int>(PointwiseOp::kCopy) + 1;

// "add", "one_minus", "log_sigmoid", ...
std::string_view Name(PointwiseOp op);
// As emitted code spells it: "LogSigmoid" for log_sigmoid.
std::string PascalCaseName(PointwiseOp op);

// How many of a, b, c the operator reads: 1 to 3.
constexpr int OperandCount(PointwiseOp op) {
  using enum PointwiseOp;
  if (op == kSelect) return 3;
  return op <= kMin || op == kGreater ? 2 : 1;
}

// Operands are value ids; those beyond OperandCount are 0.
struct PointwiseInstruction {
  PointwiseOp op;
  int32_t a = 0;
  int32_t b = 0;
  int32_t c = 0;
};

// How an input is spread over the [rows, n] elements.
enum class InputKind : uint8_t {
  kElement,    // [rows, n]
  kRowVector,  // [n], the same for every row
  kColumn,     // [rows, 1], the same for every element of a row
  kScalar,     // [1]
};

// What running a program over [rows, n] elements costs. A transcendental counts as 10 operations.
struct PointwiseCost {
  double flops = 0;
  double bytes = 0;
};

// Straight-line code over [rows, n] elements: element (r, j) of every output depends on element
// (r, j) of the inputs alone. Values are numbered: first the inputs, then the constants, then one
// per instruction.
struct PointwiseProgram {
  std::vector<InputKind> inputs;
  std::vector<double> constants;
  std::vector<PointwiseInstruction> code;
  std::vector<int32_t> outputs;  // value ids, each stored as [rows, n]

  int32_t FirstConstant() const { return static_cast<int32_t>(inputs.size()); }
  int32_t FirstResult() const { return FirstConstant() + static_cast<int32_t>(constants.size()); }
  int32_t ValueCount() const { return FirstResult() + static_cast<int32_t>(code.size()); }

  // One line that says everything, so equal texts mean equal programs:
  //   "in e e c; 3=0.5; 4=mul 0 3; 5=add 4 2; out 5" (e element, r row vector, c column, s scalar).
  std::string Text() const;

  // Throws Error unless every operand names an earlier value, every output a value, and there is an
  // output.
  void Validate() const;

  // By value: whether some output depends on it.
  std::vector<bool> LiveValues() const;

  // `element_size` is the size in bytes of an element of every input and output.
  PointwiseCost Cost(int64_t rows, int64_t n, int64_t element_size) const;
};

// Error unless the name is an identifier of C++: emitters call kernels by it.
void CheckIdentifier(std::string_view name);

}  // namespace turbolstm
