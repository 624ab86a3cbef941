#include "runtime/aligned_buffer.h"

#include <cstdint>

#include "base/error.h"

namespace turbolstm {

AlignedBuffer::AlignedBuffer(size_t bytes, std::string_view purpose) : size_(bytes) {
  if (bytes == 0) return;
  // aligned_alloc wants a multiple of the alignment; beyond PTRDIFF_MAX no allocator can answer.
  if (bytes <= PTRDIFF_MAX - kAlignment) {
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    bytes_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
  }
  TL_CHECK(bytes_ != nullptr, "[allocator] could not allocate {} bytes for {}", bytes, purpose);
}

}  // namespace turbolstm
