#include <algorithm>

#include "base/error.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/operands.h"

namespace turbolstm {
namespace {

const MatMulKernels& KernelsFor(DType storage) {
  return ChooseMatMulKernels(storage == DType::kBFloat16 ? BFloat16Words() : WordKind::kFloat32);
}

}  // namespace

int64_t PackedMatrix::tile_columns() const {
  return kernels_ == nullptr ? 1 : kernels_->panel_columns;
}

int64_t PackedMatrix::bytes() const {
  return words_.capacity() * static_cast<int64_t>(sizeof(uint32_t));
}

int64_t PackedBytes(int64_t k, int64_t n, DType storage, int64_t heads) {
  const MatMulKernels& kernels = KernelsFor(storage);
  const int64_t columns = CeilDiv(n, kernels.panel_columns) * kernels.panel_columns;
  return heads * columns * WordCount(kernels.words, k) * static_cast<int64_t>(sizeof(uint32_t));
}

namespace {

// Panels [begin, end) of one head's matrix B [k, n] to `words`, where its first panel lies.
void PackPanels(const MatMulKernels& kernels, const ConstRows& from, bool transposed, int64_t k,
                int64_t n, int64_t begin, int64_t end, uint32_t* words) {
  const int64_t width = kernels.panel_columns;
  const int64_t panel_words = WordCount(kernels.words, k) * width;
  const int64_t columns_end = std::min(n, end * width);
  if (!transposed) {
    ConstRows columns = from;
    columns.offset += begin * width;
    SpreadRows(kernels, Side::kRight, columns, k, columns_end - begin * width, 0,
               WordCount(kernels.words, k), words + begin * panel_words, panel_words);
    return;
  }
  if (columns_end % width != 0) std::fill_n(words + (end - 1) * panel_words, panel_words, 0u);
  // Pieces of a panel in ascending order: what one leaves behind its rows the next overwrites.
  for (int64_t column = begin * width; column < columns_end;) {
    uint32_t* panel = words + column / width * panel_words;
    const int64_t rows =
        std::min<int64_t>({kernels.transpose_rows, width - column % width, columns_end - column});
    TransposeRows(kernels, from, column, static_cast<int>(rows), k, panel + column % width, width);
    column += rows;
  }
}

}  // namespace

void Pack(const MatrixView& weight, bool transposed, DType storage, PackedMatrix* packed,
          int64_t heads, const PackingPart& part) {
  CheckRows("storage of a weight", storage);
  TL_CHECK(heads >= 1 && weight.rows % heads == 0,
           "[matmul] weight has {} rows, wants a multiple of its {} heads", weight.rows, heads);
  TL_CHECK(part.index >= 0 && part.index < part.count, "[matmul] got part {} of {} to pack",
           part.index, part.count);
  const MatMulKernels& kernels = KernelsFor(storage);
  const int64_t rows = weight.rows / heads;
  const int64_t k = transposed ? weight.columns : rows;
  const int64_t n = transposed ? rows : weight.columns;
  const int64_t bytes = PackedBytes(k, n, storage, heads);
  TL_CHECK(part.count == 1 || packed->bytes() >= bytes,
           "[matmul] {} bytes are reserved for a weight packed in {} parts, wants {}",
           packed->bytes(), part.count, bytes);
  if (part.index == 0) {
    packed->kernels_ = &kernels;
    packed->heads_ = heads;
    packed->k_ = k;
    packed->n_ = n;
    packed->storage_ = storage;
  }
  if (part.count == 1) packed->Reserve(bytes);

  const int64_t panels = CeilDiv(n, kernels.panel_columns);
  const int64_t first = heads * panels * part.index / part.count;
  const int64_t last = heads * panels * (part.index + 1) / part.count;
  const int64_t head_words = bytes / heads / static_cast<int64_t>(sizeof(uint32_t));
  uint32_t* words = packed->words_.data();
  for (int64_t head = 0; head < heads; ++head, words += head_words) {
    const int64_t begin = std::max(first - head * panels, int64_t{0});
    const int64_t end = std::min(last - head * panels, panels);
    if (begin >= end) continue;
    const ConstRows from{weight.data + head * rows * weight.stride, weight.stride, DType::kFloat32};
    PackPanels(kernels, from, transposed, k, n, begin, end, words);
  }
}

}  // namespace turbolstm
