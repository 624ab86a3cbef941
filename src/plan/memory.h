#pragma once

#include <cstdint>
#include <vector>

#include "plan/lowered.h"
#include "plan/row_layout.h"
#include "runtime/aligned_buffer.h"

namespace turbolstm {

// The buffers of a lowered graph for one shape. Memory only grows, so that batches of changing
// shapes do not allocate once the largest has been seen.
class Memory {
 public:
  Memory(const LoweredGraph& graph, int streams);

  // Makes room; contents are undefined afterwards. tile_rows: most rows of a loop's task.
  void Resize(const RowLayout& layout, int64_t tile_rows);

  // Where a buffer begins; a local one has one place a stream.
  std::byte* base(int32_t buffer, int stream) const {
    const Slot& slot = slots_[static_cast<size_t>(buffer)];
    return slot.base + (slot.local ? stream * slot.bytes : 0);
  }
  // Puts a buffer into memory that the caller keeps: an input bound without a copy.
  void Bind(int32_t buffer, std::byte* base);
  // Back to memory of our own.
  std::byte* Own(int32_t buffer);

  int64_t bytes() const;
  // Of one buffer at this shape, for all streams; also of inputs that lie in the caller's memory.
  int64_t BytesOf(int32_t buffer) const {
    const Slot& slot = slots_[static_cast<size_t>(buffer)];
    return slot.bytes * (slot.local ? streams_ : 1);
  }

 private:
  struct Slot {
    std::byte* base = nullptr;
    int64_t bytes = 0;
    bool local = false;
  };

  const LoweredGraph& graph_;
  int streams_;
  std::vector<Slot> slots_;
  std::vector<AlignedBuffer> owned_;
};

}  // namespace turbolstm
