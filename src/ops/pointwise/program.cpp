#include "ops/pointwise/program.h"

#include <array>
#include <cctype>
#include <iterator>

#include "base/error.h"

namespace turbolstm {
namespace {

struct OpFacts {
  std::string_view name;
  double flops;
};

constexpr double kTranscendental = 10;

constexpr std::array<OpFacts, kPointwiseOpCount> kFacts{{
    {"add", 1},
    {"sub", 1},
    {"mul", 1},
    {"div", 1},
    {"max", 1},
    {"min", 1},
    {"neg", 1},
    {"one_minus", 1},
    {"sigmoid", kTranscendental},
    {"tanh", kTranscendental},
    {"relu", 1},
    {"softplus", 2 * kTranscendental},
    {"log_sigmoid", 2 * kTranscendental},
    {"exp", kTranscendental},
    {"log", kTranscendental},
    {"sqrt", 1},
    {"rsqrt", 2},
    {"reciprocal", 1},
    {"abs", 1},
    {"sin", kTranscendental},
    {"cos", kTranscendental},
    {"greater", 1},
    {"select", 1},
    {"copy", 0},
}};

const OpFacts& Facts(PointwiseOp op) {
  const auto index = static_cast<size_t>(op);
  TL_CHECK(index < kFacts.size(), "[pointwise] operator number {} is unknown", index);
  return kFacts[index];
}

std::array<int32_t, 3> Operands(const PointwiseInstruction& instruction) {
  return {instruction.a, instruction.b, instruction.c};
}

char Letter(InputKind kind) {
  switch (kind) {
    case InputKind::kElement:
      return 'e';
    case InputKind::kRowVector:
      return 'r';
    case InputKind::kColumn:
      return 'c';
    case InputKind::kScalar:
      break;
  }
  return 's';
}

// Elements that a program reads or writes in one tensor of this kind.
int64_t Elements(InputKind kind, int64_t rows, int64_t n) {
  switch (kind) {
    case InputKind::kElement:
      return rows * n;
    case InputKind::kRowVector:
      return n;
    case InputKind::kColumn:
      return rows;
    case InputKind::kScalar:
      break;
  }
  return 1;
}

}  // namespace

std::string_view Name(PointwiseOp op) {
  return Facts(op).name;
}

std::string PascalCaseName(PointwiseOp op) {
  std::string result;
  bool upper = true;
  for (char c : Name(op)) {
    if (c != '_') result += static_cast<char>(upper ? std::toupper(c) : c);
    upper = c == '_';
  }
  return result;
}

std::string PointwiseProgram::Text() const {
  std::string text = "in";
  const auto out = std::back_inserter(text);
  for (InputKind kind : inputs) fmt::format_to(out, " {}", Letter(kind));
  int32_t value = FirstConstant();
  for (double constant : constants) fmt::format_to(out, "; {}={}", value++, constant);
  for (const PointwiseInstruction& instruction : code) {
    fmt::format_to(out, "; {}={}", value++, Name(instruction.op));
    const auto operands = Operands(instruction);
    for (int i = 0; i < OperandCount(instruction.op); ++i) fmt::format_to(out, " {}", operands[i]);
  }
  text += "; out";
  for (int32_t output : outputs) fmt::format_to(out, " {}", output);
  return text;
}

void PointwiseProgram::Validate() const {
  TL_CHECK(!outputs.empty(), "[pointwise] the program has no output");
  int32_t value = FirstResult();
  for (const PointwiseInstruction& instruction : code) {
    const auto operands = Operands(instruction);
    for (int i = 0; i < OperandCount(instruction.op); ++i) {
      TL_CHECK(operands[i] >= 0 && operands[i] < value,
               "[pointwise] value {} ({}) reads value {}, wants one of 0 to {}", value,
               Name(instruction.op), operands[i], value - 1);
    }
    for (int i = OperandCount(instruction.op); i < 3; ++i) {
      TL_CHECK(operands[i] == 0, "[pointwise] value {} ({}) takes {} operands, got one more: {}",
               value, Name(instruction.op), OperandCount(instruction.op), operands[i]);
    }
    ++value;
  }
  for (int32_t output : outputs) {
    TL_CHECK(output >= 0 && output < value, "[pointwise] output is value {}, wants one of 0 to {}",
             output, value - 1);
  }
}

std::vector<bool> PointwiseProgram::LiveValues() const {
  std::vector<bool> live(static_cast<size_t>(ValueCount()), false);
  for (int32_t output : outputs) live[static_cast<size_t>(output)] = true;
  for (size_t i = code.size(); i-- > 0;) {
    if (!live[static_cast<size_t>(FirstResult()) + i]) continue;
    const auto operands = Operands(code[i]);
    for (int k = 0; k < OperandCount(code[i].op); ++k) {
      live[static_cast<size_t>(operands[static_cast<size_t>(k)])] = true;
    }
  }
  return live;
}

PointwiseCost PointwiseProgram::Cost(int64_t rows, int64_t n, int64_t element_size) const {
  PointwiseCost cost;
  double per_element = 0;
  for (const PointwiseInstruction& instruction : code) per_element += Facts(instruction.op).flops;
  cost.flops = per_element * static_cast<double>(rows) * static_cast<double>(n);
  int64_t elements = static_cast<int64_t>(outputs.size()) * rows * n;
  for (InputKind kind : inputs) elements += Elements(kind, rows, n);
  cost.bytes = static_cast<double>(elements) * static_cast<double>(element_size);
  return cost;
}

void CheckIdentifier(std::string_view name) {
  bool good = !name.empty() && !std::isdigit(static_cast<unsigned char>(name.front()));
  for (char c : name) good = good && (std::isalnum(static_cast<unsigned char>(c)) || c == '_');
  TL_CHECK(good, "[emit pointwise] got the name \"{}\", wants an identifier", name);
}

}  // namespace turbolstm
