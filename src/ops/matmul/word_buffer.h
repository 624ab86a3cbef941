#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/aligned_buffer.h"

namespace turbolstm {

// 32-bit words that begin on a cache line; grows and never shrinks.
class WordBuffer {
 public:
  // At least `words` words with unspecified contents.
  uint32_t* Reserve(int64_t words) {
    if (words > capacity()) {
      buffer_ = AlignedBuffer();
      buffer_ = AlignedBuffer(static_cast<size_t>(words) * sizeof(uint32_t), "a matrix product");
    }
    return buffer_.As<uint32_t>();
  }
  uint32_t* data() { return buffer_.As<uint32_t>(); }
  const uint32_t* get() const { return buffer_.As<uint32_t>(); }
  int64_t capacity() const { return static_cast<int64_t>(buffer_.size() / sizeof(uint32_t)); }

 private:
  AlignedBuffer buffer_;
};

}  // namespace turbolstm
