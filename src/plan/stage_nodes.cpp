// Operators that are neither products nor pointwise, in plain fp32 loops: what they cost is small
// beside the products.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/bfloat16.h"
#include "base/error.h"
#include "plan/stage_runner.h"

namespace turbolstm {
namespace {

// A row of numbers of either type.
class ConstRow {
 public:
  ConstRow(const std::byte* data, DType type) : data_(data), type_(type) {}

  float operator[](int64_t i) const {
    return type_ == DType::kFloat32
               ? reinterpret_cast<const float*>(data_)[i]
               : static_cast<float>(reinterpret_cast<const BFloat16*>(data_)[i]);
  }
  int32_t index() const { return *reinterpret_cast<const int32_t*>(data_); }

 private:
  const std::byte* data_;
  DType type_;
};

class Row {
 public:
  Row(std::byte* data, DType type) : data_(data), type_(type) {}

  void Set(int64_t i, float value) const {
    if (type_ == DType::kFloat32) {
      reinterpret_cast<float*>(data_)[i] = value;
    } else {
      reinterpret_cast<BFloat16*>(data_)[i] = BFloat16(value);
    }
  }
  void Add(int64_t i, float value) const { Set(i, ConstRow(data_, type_)[i] + value); }
  void Fill(int64_t count, float value) const {
    for (int64_t i = 0; i < count; ++i) Set(i, value);
  }

 private:
  std::byte* data_;
  DType type_;
};

float MaxOf(const ConstRow& row, int64_t n) {
  float most = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < n; ++i) most = std::max(most, row[i]);
  return most;
}

double SumOfExp(const ConstRow& row, int64_t n, float shift) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(double{row[i]} - shift);
  return sum;
}

void Softmax(const ConstRow& x, int64_t n, const Row& y) {
  const float most = MaxOf(x, n);
  const double sum = SumOfExp(x, n, most);
  for (int64_t i = 0; i < n; ++i) {
    y.Set(i, static_cast<float>(std::exp(double{x[i]} - most) / sum));
  }
}

int32_t CheckedIndex(const Stage& stage, int32_t index, int64_t size) {
  TL_CHECK(index >= 0 && index < size, "[{}] index {} is outside 0 to {}", stage.name, index,
           size - 1);
  return index;
}

// What an operator needs to know of the row it is at.
struct Place {
  int64_t time;
  int64_t row;       // of the batch, as laid out
  int64_t sequence;  // as the caller counts
};

void RandomMask(const RunState& state, const Stage& stage, const Place& place, int64_t n,
                const Row& y) {
  const auto keep = static_cast<float>(stage.attributes.number);
  const auto scale = static_cast<float>(stage.attributes.scale);
  if (!state.training) return y.Fill(n, keep * scale);
  const RandomSite site{state.seed, state.training_step,
                        static_cast<uint32_t>(stage.attributes.site)};
  const int64_t row = stage.domain == Domain::kStep
                          ? place.time * state.layout->batch() + place.sequence
                          : place.sequence;
  for (int64_t i = 0; i < n; ++i) {
    y.Set(i, site.Uniform(static_cast<uint64_t>(row * n + i)) < keep ? scale : 0.0f);
  }
}

void EvaluateRow(const RunState& state, const Stage& stage, const Place& place,
                 const std::vector<ConstRow>& x, const Row& y) {
  const int64_t n = stage.outputs[0].width;
  const int64_t width = stage.inputs.empty() ? 0 : stage.inputs[0].view.width;
  switch (stage.op) {
    case Op::kRandomMask:
      return RandomMask(state, stage, place, n, y);
    case Op::kLengths:
      return y.Set(0, static_cast<float>(state.layout->length(place.row)));
    case Op::kRowSum: {
      double sum = 0;
      for (int64_t i = 0; i < width; ++i) sum += double{x[0][i]};
      return y.Set(0, static_cast<float>(sum));
    }
    case Op::kPad:
      y.Fill(n, 0);
      for (int64_t i = 0; i < width; ++i) y.Set(stage.attributes.begin + i, x[0][i]);
      return;
    case Op::kGather: {
      // The table is Static: all of it is the "row".
      const int64_t entries = n == 0 ? 0 : width / n;
      const int64_t entry = CheckedIndex(stage, x[1].index(), n == 0 ? 1 : entries);
      for (int64_t i = 0; i < n; ++i) y.Set(i, x[0][entry * n + i]);
      return;
    }
    case Op::kOneHot:
      y.Fill(n, 0);
      return y.Set(CheckedIndex(stage, x[0].index(), n), 1);
    case Op::kSoftmax:
      return Softmax(x[0], n, y);
    case Op::kCrossEntropy: {
      const float most = MaxOf(x[0], width);
      const int32_t target = CheckedIndex(stage, x[1].index(), width);
      return y.Set(0,
                   static_cast<float>(std::log(SumOfExp(x[0], width, most)) + most - x[0][target]));
    }
    default:
      Fail("[{}] {} does not run row by row", stage.name, Traits(stage.op).name);
  }
}

void StaticTranspose(const std::vector<int64_t>& out, const float* x, float* y) {
  const int64_t rows = out.end()[-2];
  const int64_t columns = out.back();
  const int64_t heads = ElementCount(out) / std::max<int64_t>(1, rows * columns);
  for (int64_t h = 0; h < heads; ++h, x += rows * columns, y += rows * columns) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) y[i * columns + j] = x[j * rows + i];
    }
  }
}

void StaticProduct(int64_t m, int64_t k, int64_t n, const float* a, const float* b, float* y) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < k; ++p) sum += double{a[i * k + p]} * b[p * n + j];
      y[i * n + j] = static_cast<float>(sum);
    }
  }
}

}  // namespace

void StageRunner::RunNodeRows(const Stage& stage, const StepRows& rows) {
  const View& to = stage.outputs[0];
  std::vector<ConstRow> operands;
  for (int64_t row = rows.row_begin; row < rows.row_end; ++row) {
    operands.clear();
    for (const Operand& operand : stage.inputs) {
      operands.emplace_back(Resolve(operand, rows.time, row, row + 1).data,
                            buffer(operand.view.buffer).dtype);
    }
    EvaluateRow(state_, stage, {rows.time, row, state_.layout->sequence(row)}, operands,
                {OutputRow(to, rows, row), buffer(to.buffer).dtype});
  }
}

void StageRunner::RunStatic(const Stage& stage) {
  if (stage.kind == Stage::Kind::kPointwise) {
    inputs_.clear();
    outputs_.clear();
    for (const Operand& operand : stage.inputs) {
      inputs_.push_back({Row(operand.view, 0), operand.view.width, DType::kFloat32});
    }
    for (const View& view : stage.outputs) {
      outputs_.push_back({Row(view, 0), view.width, DType::kFloat32});
    }
    (*stage.kernel)({1, stage.outputs[0].width, inputs_.data(), outputs_.data()});
    return;
  }
  if (stage.kind == Stage::Kind::kMatMul) {
    const View& x = stage.inputs[0].view;
    MatMul({Row(x, 0), x.width}, 1, (*state_.weights)[static_cast<size_t>(stage.weight)], nullptr,
           false, {Row(stage.outputs[0], 0), stage.outputs[0].width});
    return;
  }
  auto* y = reinterpret_cast<float*>(Row(stage.outputs[0], 0));
  const auto input = [&](size_t i) {
    return reinterpret_cast<const float*>(Row(stage.inputs[i].view, 0));
  };
  const int64_t n = stage.outputs[0].width;
  const int64_t rest = stage.features.empty() || stage.features[0] == 0
                           ? 0
                           : n / stage.features[0];  // elements behind the first axis
  switch (stage.op) {
    case Op::kConstant:
      *y = static_cast<float>(stage.attributes.number);
      return;
    case Op::kRowCount:
      *y = static_cast<float>(stage.attributes.domain == Domain::kBatch ? state_.layout->batch()
                                                                        : state_.layout->rows());
      return;
    case Op::kSlice:
      std::copy_n(input(0) + stage.attributes.begin * rest, n, y);
      return;
    case Op::kPad: {
      std::fill_n(y, n, 0.0f);
      std::copy_n(input(0), stage.inputs[0].view.width, y + stage.attributes.begin * rest);
      return;
    }
    case Op::kConcat:
      for (size_t i = 0; i < stage.inputs.size(); ++i) {
        y = std::copy_n(input(i), stage.inputs[i].view.width, y);
      }
      return;
    case Op::kRowSum: {
      double sum = 0;
      for (int64_t i = 0; i < stage.inputs[0].view.width; ++i) sum += double{input(0)[i]};
      *y = static_cast<float>(sum);
      return;
    }
    case Op::kTranspose:
      return StaticTranspose(stage.features, input(0), y);
    case Op::kProduct: {
      const int64_t m = stage.features[0];
      const int64_t k = m == 0 ? 0 : stage.inputs[0].view.width / m;
      return StaticProduct(m, k, stage.features[1], input(0), input(1), y);
    }
    case Op::kSoftmax:
      return Softmax({Row(stage.inputs[0].view, 0), DType::kFloat32}, n,
                     {Row(stage.outputs[0], 0), DType::kFloat32});
    default:
      Fail("[{}] {} does not run on parameters", stage.name, Traits(stage.op).name);
  }
}

void StageRunner::RunReduction(const Stage& stage, int64_t time_begin, int64_t time_end,
                               int64_t column_begin, int64_t column_end, bool first) {
  const RowLayout& layout = *state_.layout;
  const bool steps = stage.domain == Domain::kStep;
  int64_t rows = stage.domain == Domain::kBatch ? layout.batch() : 1;
  if (steps) rows = layout.offset(time_end) - layout.offset(time_begin);
  auto* y = reinterpret_cast<float*>(Row(stage.outputs[0], 0));
  const auto operand = [&](size_t i, std::vector<const void*>* pointers) {
    const View& view = stage.inputs[i].view;
    if (steps) return GatherRows(stage.inputs[i], time_begin, time_end, pointers);
    const Buffer& source = buffer(view.buffer);
    return ConstRows{Row(view, 0), source.domain == Domain::kStatic ? 0 : source.width,
                     source.dtype};
  };
  ConstRows a = operand(0, &pointers_);
  if (stage.op == Op::kSumRows) {
    a.offset = column_begin;
    return SumOverRows(a, column_end - column_begin, rows, !first, y + column_begin);
  }
  TL_CHECK(stage.op == Op::kOuter, "[{}] {} does not sum over rows", stage.name,
           Traits(stage.op).name);
  ConstRows b = operand(1, &more_pointers_);
  const int64_t heads = std::max<int64_t>(1, stage.attributes.size);
  const int64_t m = stage.inputs[0].view.width / heads;
  const int64_t n = stage.inputs[1].view.width / heads;
  const DType arithmetic =
      state_.graph->precision == Precision::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
  for (int64_t head = 0; head < heads; ++head) {
    const int64_t begin = std::max(column_begin, head * m);
    const int64_t end = std::min(column_end, (head + 1) * m);
    if (begin >= end) continue;
    a.offset = begin;
    b.offset = head * n;
    MatMulTransposed(a, end - begin, b, n, rows, arithmetic, !first, y + begin * n, n);
  }
}

namespace {

// The walk that the original edge made, for the operators at its ends.
Walk EdgeWalk(const RowLayout& layout, const Stage& stage, int64_t row) {
  return layout.WalkOf(row, stage.inputs[0].direction);
}

}  // namespace

void StageRunner::RunWhole(const Stage& stage) {
  const RowLayout& layout = *state_.layout;
  const View& to = stage.outputs[0];
  const DType type = buffer(to.buffer).dtype;
  const int64_t n = to.width;
  const auto output = [&](int64_t time, int64_t row) {
    return turbolstm::Row(OutputRow(to, {time, row, row + 1}, row), type);
  };
  const auto input = [&](size_t i, int64_t time, int64_t row) {
    const View& view = stage.inputs[i].view;
    return ConstRow(Resolve(stage.inputs[i], time, row, row + 1).data, buffer(view.buffer).dtype);
  };
  switch (stage.op) {
    case Op::kSumTime:
      for (int64_t b = 0; b < layout.batch(); ++b) {
        output(0, b).Fill(n, 0);
        for (int64_t t = 0; t < layout.length(b); ++t) {
          const ConstRow x = input(0, t, b);
          for (int64_t i = 0; i < n; ++i) output(0, b).Add(i, x[i]);
        }
      }
      return;
    case Op::kFirstMaxMask:
      for (int64_t b = 0; b < layout.batch(); ++b) {
        for (int64_t t = 0; t < layout.length(b); ++t) output(t, b).Fill(n, 0);
        for (int64_t i = 0; i < n && layout.length(b) > 0; ++i) {
          int64_t best = 0;
          for (int64_t t = 1; t < layout.length(b); ++t) {
            if (input(0, t, b)[i] > input(0, best, b)[i]) best = t;
          }
          output(best, b).Set(i, 1);
        }
      }
      return;
    case Op::kFinal: {
      const Operand& x = stage.inputs[0];
      for (int64_t b = 0; b < layout.batch(); ++b) {
        const Walk walk = EdgeWalk(layout, stage, b);
        for (int64_t j = 0; j < x.delay; ++j) {
          const Link link = walk.Read(layout.length(b) + j, x.delay);
          const ConstRow row(AtLink(x, link, b, b + 1).data, buffer(x.view.buffer).dtype);
          for (int64_t i = 0; i < x.view.width; ++i) output(0, b).Set(j * x.view.width + i, row[i]);
        }
      }
      return;
    }
    case Op::kFinalGrad:
      for (int64_t b = 0; b < layout.batch(); ++b) {
        const Walk walk = EdgeWalk(layout, stage, b);
        for (int64_t t = 0; t < layout.length(b); ++t) {
          const Link link = walk.ReadFinal(walk.Position(t), stage.attributes.size);
          const turbolstm::Row y = output(t, b);
          if (link.kind != Link::Kind::kInit) {
            y.Fill(n, 0);
            continue;
          }
          const ConstRow g = input(0, t, b);
          for (int64_t i = 0; i < n; ++i) y.Set(i, g[link.index * n + i]);
        }
      }
      return;
    case Op::kFinalInitGrad:
    case Op::kInitGrad: {
      const int64_t delay = stage.attributes.size;
      const int64_t width = n / delay;
      const bool at_end = stage.op == Op::kFinalInitGrad;
      for (int64_t b = 0; b < layout.batch(); ++b) {
        output(0, b).Fill(n, 0);
        const Walk walk = EdgeWalk(layout, stage, b);
        const int64_t readers = at_end ? delay : layout.length(b);
        for (int64_t u = 0; u < readers; ++u) {
          const Link link = walk.Read(at_end ? layout.length(b) + u : u, delay);
          if (link.kind != Link::Kind::kInit) continue;
          const ConstRow g = input(0, at_end ? 0 : walk.Position(u), b);
          const int64_t from = at_end ? u * width : 0;
          for (int64_t i = 0; i < width; ++i) {
            output(0, b).Add(link.index * width + i, g[from + i]);
          }
        }
      }
      return;
    }
    case Op::kScatterAdd: {
      auto* y = reinterpret_cast<float*>(Row(to, 0));
      std::fill_n(y, n, 0.0f);
      const int64_t width = stage.inputs[1].view.width;
      const bool steps = stage.domain == Domain::kStep;
      for (int64_t t = 0; t < (steps ? layout.steps() : 1); ++t) {
        for (int64_t b = 0; b < (steps ? layout.count(t) : layout.batch()); ++b) {
          const int32_t entry = CheckedIndex(stage, input(0, t, b).index(), stage.attributes.size);
          const ConstRow g = input(1, t, b);
          for (int64_t i = 0; i < width; ++i) y[entry * width + i] += g[i];
        }
      }
      return;
    }
    default:
      Fail("[{}] {} cannot run", stage.name, Traits(stage.op).name);
  }
}

}  // namespace turbolstm
