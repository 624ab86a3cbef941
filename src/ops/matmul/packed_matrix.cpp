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

void Pack(const MatrixView& weight, bool transposed, DType storage, PackedMatrix* packed,
          int64_t heads) {
  CheckRows("storage of a weight", storage);
  TL_CHECK(heads >= 1 && weight.rows % heads == 0,
           "[matmul] weight has {} rows, wants a multiple of its {} heads", weight.rows, heads);
  const MatMulKernels& kernels = KernelsFor(storage);
  const int64_t rows = weight.rows / heads;
  packed->kernels_ = &kernels;
  packed->heads_ = heads;
  packed->k_ = transposed ? weight.columns : rows;
  packed->n_ = transposed ? rows : weight.columns;
  packed->storage_ = storage;

  const int64_t width = kernels.panel_columns;
  const int64_t panel_words = WordCount(kernels.words, packed->k_) * width;
  const int64_t head_words = CeilDiv(packed->n_, width) * panel_words;
  uint32_t* words = packed->words_.Reserve(heads * head_words);
  for (int64_t head = 0; head < heads; ++head, words += head_words) {
    const ConstRows from{weight.data + head * rows * weight.stride, weight.stride, DType::kFloat32};
    if (!transposed) {
      SpreadRows(kernels, Side::kRight, from, rows, packed->n_, 0,
                 WordCount(kernels.words, packed->k_), words, panel_words);
      continue;
    }
    if (packed->n_ % width != 0) std::fill_n(words + head_words - panel_words, panel_words, 0u);
    // Parts of a panel in ascending order: what one leaves behind its rows the next overwrites.
    for (int64_t n = 0; n < packed->n_;) {
      uint32_t* panel = words + n / width * panel_words;
      const int64_t part =
          std::min<int64_t>({kernels.transpose_rows, width - n % width, packed->n_ - n});
      TransposeRows(kernels, from, n, static_cast<int>(part), packed->k_, panel + n % width, width);
      n += part;
    }
  }
}

}  // namespace turbolstm
