#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/dtype.h"
#include "ops/pointwise/kernel_cuda.h"

namespace turbolstm::cuda {

// A float in the bits of a type (float32, bfloat16, float16), rounded to nearest even, and back.
uint32_t Encode(DType dtype, float value);
float Decode(DType dtype, uint32_t bits);

// Memory of the host laid out as a kernel would find it on the device: rows of `width` elements
// with a gap behind each.
class RowImage {
 public:
  RowImage(DType dtype, int64_t rows, int64_t width, int64_t gap);

  DType dtype() const { return dtype_; }
  int64_t rows() const { return rows_; }
  int64_t row_bytes() const { return (width_ + gap_) * ElementSize(); }
  float At(int64_t row, int64_t j) const;
  void Set(int64_t row, int64_t j, float value);
  std::vector<unsigned char>& bytes() { return bytes_; }
  const std::vector<unsigned char>& bytes() const { return bytes_; }

 private:
  int64_t ElementSize() const { return static_cast<int64_t>(SizeOf(dtype_)); }
  size_t Offset(int64_t row, int64_t j) const {
    return static_cast<size_t>(row * row_bytes() + j * ElementSize());
  }

  DType dtype_;
  int64_t rows_, width_, gap_;
  std::vector<unsigned char> bytes_;
};

// Where operands and outputs lie among images, by number.
struct ModelOperand {
  int image = -1;              // -1: zeros
  int init = -1;               // -1: zeros
  int64_t init_rows = 0;       // rows of the initial value from sequence to sequence
  int64_t init_step_rows = 0;  // from history row to history row
  RowKind kind = RowKind::kStep;
  int64_t period = 1;
  int delay = 0;
  int direction = 1;
  bool adjoint = false;
};

struct ModelOutput {
  int image = -1;
  RowKind kind = RowKind::kStep;
  int64_t period = 1;
};

// A run on the host, by graph/walk and the reference in double: the oracle of kernels.
struct ModelRun {
  TypedProgram typed = {};
  int64_t steps = 0, batch = 0, n = 0;
  std::vector<int32_t> lengths = {};       // [B] or empty
  std::vector<unsigned char> resets = {};  // [T, B] or empty
  RowRange range = {};
  bool reverse = false;
  std::vector<RowImage> images = {};
  std::vector<ModelOperand> inputs = {};
  std::vector<ModelOutput> outputs = {};

  int64_t OutputRow(const ModelOutput& output, int64_t t, int64_t b) const;
  bool IsPadding(int64_t t, int64_t b) const;
  // Writes the outputs into their images, step by step.
  void Run();

 private:
  // The row of an image, or nothing for zeros.
  struct Found {
    int image = -1;
    int64_t row = 0;
  };
  Found Find(const ModelOperand& operand, int64_t t, int64_t b) const;
  void RunRow(int64_t t, int64_t b);
};

}  // namespace turbolstm::cuda
