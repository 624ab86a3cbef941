#include "ops/matmul/word_buffer.h"

#include <new>

namespace turbolstm {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

void WordBuffer::Free::operator()(uint32_t* memory) const {
  ::operator delete[](memory, kAlignment);
}

uint32_t* WordBuffer::Reserve(int64_t words) {
  if (words > capacity_) {
    words_.reset();
    capacity_ = 0;
    words_.reset(new (kAlignment) uint32_t[static_cast<size_t>(words)]);
    capacity_ = words;
  }
  return words_.get();
}

}  // namespace turbolstm
