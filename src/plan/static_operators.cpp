#include "plan/static_operators.h"

#include <algorithm>

#include "base/error.h"
#include "plan/row_operators.h"
#include "plan/stage_runner.h"

namespace turbolstm {
namespace {

using Operands = std::vector<const float*>;

int64_t WidthOf(const Stage& stage, size_t operand) {
  return stage.inputs[operand].view.width;
}

// Elements behind the first axis of the result, which slices and pads move by.
int64_t InnerElements(const Stage& stage) {
  const std::vector<int64_t>& features = stage.features;
  return ElementCount({features.begin() + 1, features.end()});
}

void Slice(const Stage& stage, const Operands& x, float* y) {
  std::copy_n(x[0] + stage.attributes.begin * InnerElements(stage), stage.outputs[0].width, y);
}

void Pad(const Stage& stage, const Operands& x, float* y) {
  std::fill_n(y, stage.outputs[0].width, 0.0f);
  std::copy_n(x[0], WidthOf(stage, 0), y + stage.attributes.begin * InnerElements(stage));
}

void Concat(const Stage& stage, const Operands& x, float* y) {
  for (size_t i = 0; i < x.size(); ++i) y = std::copy_n(x[i], WidthOf(stage, i), y);
}

float Sum(const Stage& stage, const Operands& x) {
  double sum = 0;
  for (int64_t i = 0; i < WidthOf(stage, 0); ++i) sum += double{x[0][i]};
  return static_cast<float>(sum);
}

// [.., n, m] -> [.., m, n]
void Transpose(const Stage& stage, const float* x, float* y) {
  const int64_t rows = stage.features.end()[-2];
  const int64_t columns = stage.features.back();
  const int64_t matrices = ElementCount({stage.features.begin(), stage.features.end() - 2});
  for (int64_t k = 0; k < matrices; ++k, x += rows * columns, y += rows * columns) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) y[i * columns + j] = x[j * rows + i];
    }
  }
}

// [m, k] [k, n] -> [m, n]
void Product(const Stage& stage, const Operands& x, float* y) {
  const int64_t m = stage.features[0];
  const int64_t n = stage.features[1];
  const int64_t k = m == 0 ? 0 : WidthOf(stage, 0) / m;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += double{x[0][i * k + p]} * x[1][p * n + j];
      y[i * n + j] = static_cast<float>(sum);
    }
  }
}

void Softmax(const Stage& stage, const float* x, float* y) {
  SoftmaxRow({reinterpret_cast<const std::byte*>(x), DType::kFloat32}, stage.outputs[0].width,
             {reinterpret_cast<std::byte*>(y), DType::kFloat32});
}

}  // namespace

void EvaluateStatic(const RunState& state, const Stage& stage,
                    const std::vector<const float*>& operands, float* result) {
  switch (stage.op) {
    case Op::kConstant:
      *result = static_cast<float>(stage.attributes.number);
      return;
    case Op::kRowCount:
      *result = static_cast<float>(RowCount(state, stage));
      return;
    case Op::kSlice:
      return Slice(stage, operands, result);
    case Op::kPad:
      return Pad(stage, operands, result);
    case Op::kConcat:
      return Concat(stage, operands, result);
    case Op::kRowSum:
      *result = Sum(stage, operands);
      return;
    case Op::kTranspose:
      return Transpose(stage, operands[0], result);
    case Op::kProduct:
      return Product(stage, operands, result);
    case Op::kSoftmax:
      return Softmax(stage, operands[0], result);
    default:
      Fail("[{}] {} does not run on parameters", stage.name, Traits(stage.op).name);
  }
}

}  // namespace turbolstm
