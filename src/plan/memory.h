#pragma once

#include <cstdint>
#include <vector>

#include "plan/lowered.h"
#include "plan/partition.h"
#include "plan/row_layout.h"
#include "runtime/aligned_buffer.h"

namespace turbolstm {

// What the buffers of a graph and its packed weights take under such a plan, beside what the caller
// binds.
int64_t PlannedBytes(const LoweredGraph& graph, const RowLayout& layout, const Partition& partition,
                     int streams);

// The buffers of a lowered graph for one shape. Memory only grows, so that batches of changing
// shapes do not allocate once the largest has been seen.
class Memory {
 public:
  Memory(const LoweredGraph& graph, int streams);

  // Makes room; contents are undefined afterwards. The partition must stay valid until the next.
  void Resize(const RowLayout& layout, const Partition& partition);

  // Where a buffer begins; a local one has one place a stream.
  std::byte* base(int32_t buffer, int stream) const {
    const Slot& slot = slots_[static_cast<size_t>(buffer)];
    return slot.base + (slot.local ? stream * slot.bytes : 0);
  }
  // How far rows of the block that holds a step lie from where they would if all were kept.
  int64_t RowShift(int32_t buffer, int64_t block_shift) const {
    return places_ != nullptr && places_->IsRing(buffer) ? block_shift : 0;
  }
  int64_t BlockShift(const RowLayout& layout, int64_t time) const;
  // Puts a buffer into memory that the caller keeps: an input bound without a copy.
  void Bind(int32_t buffer, std::byte* base);
  // Back to memory of our own.
  std::byte* Own(int32_t buffer);

  int64_t bytes() const;
  // Of one buffer at this shape, for all streams; also of inputs that lie in the caller's memory.
  // 0: it lies in the place of another.
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
  const BufferPlaces* places_ = nullptr;
  int64_t block_rows_ = 0;  // most of a block
  std::vector<Slot> slots_;
  std::vector<AlignedBuffer> owned_;
};

}  // namespace turbolstm
