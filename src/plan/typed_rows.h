#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

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

  // f(the elements), of the type that they have; so that a loop over them asks for it once.
  template <typename F>
  void Visit(F f) const {
    if (type_ == DType::kFloat32) {
      f(reinterpret_cast<const float*>(data_));
    } else {
      f(reinterpret_cast<const BFloat16*>(data_));
    }
  }

  // y[i] += element begin + i, for `count` elements.
  void AddTo(float* y, int64_t begin, int64_t count) const {
    Visit([&](const auto* x) {
      for (int64_t i = 0; i < count; ++i) y[i] += static_cast<float>(x[begin + i]);
    });
  }

  // The first `count` elements as floats: where they lie, or converted into `scratch`.
  const float* Floats(int64_t count, std::vector<float>* scratch) const {
    if (type_ == DType::kFloat32) return reinterpret_cast<const float*>(data_);
    scratch->resize(static_cast<size_t>(count));
    Visit([&](const auto* x) {
      std::transform(x, x + count, scratch->data(), [](auto v) { return static_cast<float>(v); });
    });
    return scratch->data();
  }

 private:
  const std::byte* data_;
  DType type_;
};

// A row of numbers that is written.
class MutableRow {
 public:
  MutableRow(std::byte* data, DType type) : data_(data), type_(type) {}

  void Set(int64_t i, float value) const {
    Visit([&](auto* y) { y[i] = std::decay_t<decltype(*y)>(value); });
  }
  void Fill(int64_t count, float value) const {
    Visit([&](auto* y) { std::fill_n(y, count, std::decay_t<decltype(*y)>(value)); });
  }
  // Elements from `to` on become `count` elements of another row, from `from` on.
  void Copy(int64_t to, const ConstRow& row, int64_t from, int64_t count) const {
    Visit([&](auto* y) {
      row.Visit([&](const auto* x) {
        using X = std::decay_t<decltype(*x)>;
        using Y = std::decay_t<decltype(*y)>;
        if constexpr (std::is_same_v<X, Y>) {
          std::copy_n(x + from, count, y + to);
        } else {
          std::transform(x + from, x + from + count, y + to, [](X v) { return static_cast<Y>(v); });
        }
      });
    });
  }
  // Elements from 0 on become what write(float*) leaves in `count` floats: where the row lies, or
  // in `scratch`.
  template <typename F>
  void Write(int64_t count, std::vector<float>* scratch, F write) const {
    if (type_ == DType::kFloat32) return write(reinterpret_cast<float*>(data_));
    scratch->resize(static_cast<size_t>(count));
    write(scratch->data());
    Copy(0, {reinterpret_cast<const std::byte*>(scratch->data()), DType::kFloat32}, 0, count);
  }

 private:
  template <typename F>
  void Visit(F f) const {
    if (type_ == DType::kFloat32) {
      f(reinterpret_cast<float*>(data_));
    } else {
      f(reinterpret_cast<BFloat16*>(data_));
    }
  }

  std::byte* data_;
  DType type_;
};

}  // namespace turbolstm
