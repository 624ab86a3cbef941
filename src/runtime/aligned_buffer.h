#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

namespace turbolstm {

// Owns `size()` uninitialised bytes that begin on a cache line. Zero bytes are legal.
class AlignedBuffer {
 public:
  static constexpr size_t kAlignment = 64;  // bytes: a cache line and an AVX-512 register

  AlignedBuffer() = default;
  // `purpose` completes the error text "[allocator] could not allocate N bytes for ...".
  AlignedBuffer(size_t bytes, std::string_view purpose);
  AlignedBuffer(AlignedBuffer&& other) noexcept { *this = std::move(other); }
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    bytes_ = std::move(other.bytes_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  std::byte* data() { return bytes_.get(); }
  const std::byte* data() const { return bytes_.get(); }
  size_t size() const { return size_; }

  template <typename T>
  T* As() {
    return reinterpret_cast<T*>(bytes_.get());
  }
  template <typename T>
  const T* As() const {
    return reinterpret_cast<const T*>(bytes_.get());
  }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  size_t size_ = 0;
};

}  // namespace turbolstm
