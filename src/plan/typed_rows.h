#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bfloat16.h"
#include "base/dtype.h"

namespace turbolstm {

// A row of numbers that is read, fp32 or bf16; or one index.
class ConstRow {
 public:
  ConstRow(const std::byte* data, DType type) : data_(data), type_(type) {}

  float operator[](int64_t i) const {
    return type_ == DType::kFloat32
               ? reinterpret_cast<const float*>(data_)[i]
               : static_cast<float>(reinterpret_cast<const BFloat16*>(data_)[i]);
  }
  int32_t index() const { return *reinterpret_cast<const int32_t*>(data_); }

  // y[i] += element begin + i, for `count` elements.
  void AddTo(float* y, int64_t begin, int64_t count) const {
    if (type_ == DType::kFloat32) {
      const auto* x = reinterpret_cast<const float*>(data_) + begin;
      for (int64_t i = 0; i < count; ++i) y[i] += x[i];
    } else {
      const auto* x = reinterpret_cast<const BFloat16*>(data_) + begin;
      for (int64_t i = 0; i < count; ++i) y[i] += static_cast<float>(x[i]);
    }
  }

 private:
  friend class MutableRow;
  const std::byte* data_;
  DType type_;
};

// A row of numbers that is written.
class MutableRow {
 public:
  MutableRow(std::byte* data, DType type) : data_(data), type_(type) {}

  void Set(int64_t i, float value) const {
    if (type_ == DType::kFloat32) {
      reinterpret_cast<float*>(data_)[i] = value;
    } else {
      reinterpret_cast<BFloat16*>(data_)[i] = BFloat16(value);
    }
  }
  void Fill(int64_t count, float value) const {
    for (int64_t i = 0; i < count; ++i) Set(i, value);
  }
  // Elements from `to` on become `count` elements of another row, from `from` on.
  void Copy(int64_t to, const ConstRow& row, int64_t from, int64_t count) const {
    if (type_ == DType::kFloat32 && row.type_ == DType::kFloat32) {
      std::copy_n(reinterpret_cast<const float*>(row.data_) + from, count,
                  reinterpret_cast<float*>(data_) + to);
      return;
    }
    for (int64_t i = 0; i < count; ++i) Set(to + i, row[from + i]);
  }

 private:
  std::byte* data_;
  DType type_;
};

}  // namespace turbolstm
