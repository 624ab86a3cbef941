#include "ops/matmul/matmul.h"

#include <algorithm>

#include "base/bfloat16.h"
#include "base/error.h"
#include "ops/matmul/operands.h"

namespace turbolstm {
namespace {

// Rows of x are handled in groups, one micro-kernel call each; a block of groups meets a panel of B
// while that is in the first-level cache. Its words are to stay in the second-level cache.
constexpr int64_t kMaxGroups = 8;
constexpr int64_t kMaxLeftWords = int64_t{1} << 16;
// A right operand that fits the first-level cache meets one group at a time: rows of y are then
// written from end to end.
constexpr int64_t kSmallRightWords = int64_t{1} << 13;
constexpr int64_t kMaxTile = kMaxGroups * kMaxRows * kMaxPanelColumns;

// Rows dealt out to groups as evenly as possible.
struct Groups {
  int64_t rows = 0;
  int64_t count = 0;

  int64_t Begin(int64_t group) const { return rows * group / count; }
  int Size(int64_t group) const { return static_cast<int>(Begin(group + 1) - Begin(group)); }
};

// A block of y [rows, columns] that micro-kernels may read and write: y itself if they can, else
// `room`, filled from y before and copied to y after.
class ResultBlock {
 public:
  ResultBlock(const MatMulKernels& kernels, const Rows& y, int64_t row, int64_t column,
              int64_t rows, int64_t columns)
      : kernels_(kernels), y_(y), row_(row), column_(column), rows_(rows), columns_(columns) {}

  // The kernels will write `width` columns of which `lead` come before the block's first.
  void Open(int64_t width, int64_t lead, bool accumulate, float* room) {
    if (y_.dtype == DType::kFloat32 && columns_ == width) {
      data_ = Float(0);
      stride_ = y_.stride;
      return;
    }
    data_ = room;
    stride_ = width;
    copy_ = room + lead;
    if (!accumulate) return;
    for (int64_t i = 0; i < rows_; ++i) {
      if (y_.dtype == DType::kFloat32) {
        std::copy_n(Float(i), columns_, copy_ + i * stride_);
      } else {
        kernels_.widen(Half(i), columns_, copy_ + i * stride_);
      }
    }
  }

  void Close() const {
    if (copy_ == nullptr) return;
    for (int64_t i = 0; i < rows_; ++i) {
      if (y_.dtype == DType::kFloat32) {
        std::copy_n(copy_ + i * stride_, columns_, Float(i));
      } else {
        kernels_.round(copy_ + i * stride_, columns_, Half(i));
      }
    }
  }

  float* data() const { return data_; }
  int64_t stride() const { return stride_; }

 private:
  int64_t At(int64_t i) const { return (row_ + i) * y_.stride + column_; }
  float* Float(int64_t i) const { return static_cast<float*>(y_.base) + At(i); }
  BFloat16* Half(int64_t i) const { return static_cast<BFloat16*>(y_.base) + At(i); }

  const MatMulKernels& kernels_;
  const Rows& y_;
  int64_t row_;
  int64_t column_;
  int64_t rows_;
  int64_t columns_;
  float* data_ = nullptr;
  int64_t stride_ = 0;
  float* copy_ = nullptr;
};

// One head of the product, columns relative to the head's first.
struct Product {
  const MatMulKernels& kernels;
  const uint32_t* panels;  // of B
  int64_t words;           // of the inner dimension
  ColumnRange columns;
  const float* bias;  // of columns.begin
  bool accumulate;
  Rows y;  // column 0 is columns.begin
};

// As many panels at once as few rows allow.
int64_t PanelsAtOnce(const MatMulKernels& kernels, int rows, int64_t left) {
  const MicroKernel* micro = kernels.micro[rows - 1];
  return left >= 2 && micro[1] != nullptr ? 2 : 1;
}

// Rows of groups [first, last), whose words are at `left`, times all panels of the columns.
void MultiplyBlock(const Product& p, const Groups& groups, int64_t first, int64_t last,
                   const uint32_t* left) {
  const int64_t width = p.kernels.panel_columns;
  const int64_t panel_stride = p.words * width;
  const int64_t row = groups.Begin(first);
  const int64_t rows = groups.Begin(last) - row;
  const int64_t last_panel = CeilDiv(p.columns.end, width);
  alignas(64) float room[kMaxTile];
  alignas(64) float bias_room[kMaxPanels * kMaxPanelColumns] = {};
  for (int64_t panel = p.columns.begin / width, count = 0; panel < last_panel; panel += count) {
    count = last - first == 1 ? PanelsAtOnce(p.kernels, groups.Size(first), last_panel - panel) : 1;
    const int64_t begin = std::max(p.columns.begin, panel * width);
    const int64_t end = std::min(p.columns.end, (panel + count) * width);
    const int64_t lead = begin - panel * width;
    const int64_t column = begin - p.columns.begin;
    ResultBlock result(p.kernels, p.y, row, column, rows, end - begin);
    result.Open(count * width, lead, p.accumulate, room);
    const float* bias = p.bias == nullptr ? nullptr : p.bias + column;
    if (bias != nullptr && end - begin < count * width) {
      std::copy_n(bias, end - begin, bias_room + lead);
      bias = bias_room;
    }
    const uint32_t* right = p.panels + panel * panel_stride;
    int64_t w = 0;
    do {
      const int64_t block = std::min(kBlockWords, p.words - w);
      for (int64_t g = first; g < last; ++g) {
        const int64_t from = groups.Begin(g) - row;
        const int size = groups.Size(g);
        p.kernels.micro[size - 1][count - 1](
            left + from * p.words + w * size, right + w * width, panel_stride, block,
            result.data() + from * result.stride(), result.stride(), w == 0 ? bias : nullptr,
            w > 0 || p.accumulate);
      }
      w += block;
    } while (w < p.words);
    result.Close();
  }
}

void MultiplyHead(const Product& p, const ConstRows& x, int64_t m, int64_t k) {
  static thread_local WordBuffer buffer;
  const Groups groups{m, CeilDiv(m, p.kernels.rows)};
  const int64_t fitting = kMaxLeftWords / std::max<int64_t>(1, p.kernels.rows * p.words);
  const bool small = p.words * (p.columns.end - p.columns.begin) <= kSmallRightWords;
  const int64_t groups_at_once = small ? 1 : std::clamp<int64_t>(fitting, 1, kMaxGroups);
  const int64_t most_rows = std::min(m, groups_at_once * p.kernels.rows);
  uint32_t* left = buffer.Reserve(most_rows * p.words + kMaxOverrun);
  for (int64_t first = 0; first < groups.count; first += groups_at_once) {
    const int64_t last = std::min(first + groups_at_once, groups.count);
    uint32_t* to = left;
    for (int64_t g = first; g < last; ++g) {
      TransposeRows(p.kernels, x, groups.Begin(g), groups.Size(g), k, to, groups.Size(g));
      to += groups.Size(g) * p.words;
    }
    MultiplyBlock(p, groups, first, last, left);
  }
}

}  // namespace

void MatMul(const ConstRows& x, int64_t m, const PackedMatrix& b, const ColumnRange& columns,
            const float* bias, bool accumulate, const Rows& y) {
  CheckRows("x", x.dtype);
  CheckRows("y", y.dtype);
  TL_CHECK(0 <= columns.begin && columns.begin <= columns.end && columns.end <= b.heads_ * b.n_,
           "[matmul] columns [{}, {}) are outside the product's {}", columns.begin, columns.end,
           b.heads_ * b.n_);
  if (m == 0 || columns.begin == columns.end) return;
  const MatMulKernels& kernels = *b.kernels_;
  const int64_t words = WordCount(kernels.words, b.k_);
  const int64_t panels = CeilDiv(b.n_, kernels.panel_columns);
  for (int64_t head = columns.begin / b.n_; head * b.n_ < columns.end; ++head) {
    const int64_t first = head * b.n_;
    const int64_t begin = std::max(columns.begin, first);
    const int64_t end = std::min(columns.end, first + b.n_);
    const int64_t skip = begin - columns.begin;
    const auto bytes = static_cast<int64_t>(SizeOf(y.dtype));
    const Product product{kernels,
                          b.words_.get() + head * panels * words * kernels.panel_columns,
                          words,
                          {begin - first, end - first},
                          bias == nullptr ? nullptr : bias + skip,
                          accumulate,
                          {static_cast<char*>(y.base) + skip * bytes, y.stride, y.dtype}};
    ConstRows head_x = x;
    head_x.offset += head * b.k_;
    MultiplyHead(product, head_x, m, b.k_);
  }
}

void MatMul(const ConstRows& x, int64_t m, const PackedMatrix& b, const float* bias,
            bool accumulate, const Rows& y) {
  MatMul(x, m, b, {0, b.heads() * b.n()}, bias, accumulate, y);
}

}  // namespace turbolstm
