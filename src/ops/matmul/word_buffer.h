#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace turbolstm {

// Words aligned to a cache line; grows and never shrinks.
class WordBuffer {
 public:
  WordBuffer() = default;
  WordBuffer(WordBuffer&& other) noexcept
      : words_(std::move(other.words_)), capacity_(std::exchange(other.capacity_, 0)) {}
  WordBuffer& operator=(WordBuffer&& other) noexcept {
    words_ = std::move(other.words_);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

  // At least `words` words with unspecified contents.
  uint32_t* Reserve(int64_t words);
  uint32_t* get() const { return words_.get(); }
  int64_t capacity() const { return capacity_; }

 private:
  struct Free {
    void operator()(uint32_t* memory) const;
  };
  std::unique_ptr<uint32_t[], Free> words_;
  int64_t capacity_ = 0;
};

}  // namespace turbolstm
