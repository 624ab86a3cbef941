#include "runtime/aligned_buffer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "base/error.h"

namespace turbolstm {
namespace {

TEST(AlignedBuffer, BeginsOnACacheLine) {
  for (const size_t bytes : {size_t{1}, size_t{63}, size_t{64}, size_t{1000000}}) {
    AlignedBuffer buffer(bytes, "a test");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % AlignedBuffer::kAlignment, 0u);
    EXPECT_EQ(buffer.size(), bytes);
    buffer.data()[bytes - 1] = std::byte{1};
  }
}

TEST(AlignedBuffer, MayBeEmpty) {
  EXPECT_EQ(AlignedBuffer(0, "nothing").size(), 0u);
  EXPECT_EQ(AlignedBuffer().size(), 0u);
}

TEST(AlignedBuffer, MovesItsBytes) {
  AlignedBuffer from(128, "a test");
  const std::byte* bytes = from.data();
  const AlignedBuffer to = std::move(from);
  EXPECT_EQ(to.data(), bytes);
  EXPECT_EQ(to.size(), 128u);
  EXPECT_EQ(from.data(), nullptr);
  EXPECT_EQ(from.size(), 0u);
}

void ExpectRefused(size_t bytes) {
  try {
    AlignedBuffer buffer(bytes, "the states of 'lstm'");
    FAIL() << bytes << " bytes allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), "[allocator] could not allocate " + std::to_string(bytes) +
                                " bytes for the states of 'lstm'");
  }
}

TEST(AlignedBuffer, NamesWhatFailed) {
  ExpectRefused(SIZE_MAX);
  ExpectRefused(SIZE_MAX / 2);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  ExpectRefused(size_t{1} << 60);  // the sanitizers' allocators end the program instead
#endif
}

}  // namespace
}  // namespace turbolstm
