#include "plan/memory.h"

#include <algorithm>
#include <numeric>

namespace turbolstm {
namespace {

constexpr int64_t kLine = static_cast<int64_t>(AlignedBuffer::kAlignment);

int64_t RowsOf(const Buffer& buffer, const RowLayout& layout, int64_t tile_rows) {
  if (buffer.local) return tile_rows;
  if (buffer.ring > 0) return std::min<int64_t>(buffer.ring, layout.steps()) * layout.batch();
  switch (buffer.domain) {
    case Domain::kStep:
      return layout.rows();
    case Domain::kBatch:
      return layout.batch();
    case Domain::kStatic:
      break;
  }
  return 1;
}

// 0: it lies in the place of another.
int64_t BytesFor(const LoweredGraph& graph, int32_t id, const RowLayout& layout,
                 const Partition& partition) {
  const BufferPlaces& places = partition.places;
  if (places.place_of(id) != id) return 0;
  const Buffer& buffer = graph.buffers[static_cast<size_t>(id)];
  // Sequences only end as time goes on: no block has more rows than the first.
  const int64_t block_rows = layout.offset(std::min(places.time_block(), layout.steps()));
  const int64_t rows = places.IsRing(id) ? BufferPlaces::kBlocks * block_rows
                                         : RowsOf(buffer, layout, partition.options.row_tile);
  const int64_t size = rows * buffer.width * static_cast<int64_t>(SizeOf(buffer.dtype));
  return (size + kLine - 1) / kLine * kLine;
}

}  // namespace

int64_t PlannedBytes(const LoweredGraph& graph, const RowLayout& layout, const Partition& partition,
                     int streams) {
  int64_t bytes = partition.weights.bytes();
  for (size_t i = 0; i < graph.buffers.size(); ++i) {
    if (graph.buffers[i].source != BufferSource::kComputed) continue;
    bytes += BytesFor(graph, static_cast<int32_t>(i), layout, partition) *
             (graph.buffers[i].local ? streams : 1);
  }
  return bytes;
}

Memory::Memory(const LoweredGraph& graph, int streams)
    : graph_(graph),
      streams_(streams),
      slots_(graph.buffers.size()),
      owned_(graph.buffers.size()) {}

void Memory::Resize(const RowLayout& layout, const Partition& partition) {
  places_ = &partition.places;
  block_rows_ = layout.offset(std::min(places_->time_block(), layout.steps()));
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Buffer& buffer = graph_.buffers[i];
    const auto id = static_cast<int32_t>(i);
    slots_[i].local = buffer.local;
    slots_[i].bytes = BytesFor(graph_, id, layout, partition);
    // Inputs and parameters mostly lie in the caller's memory: room is made when it is wanted.
    if (buffer.source == BufferSource::kComputed) Own(id);
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    const auto place = static_cast<size_t>(places_->place_of(static_cast<int32_t>(i)));
    if (place != i) slots_[i].base = slots_[place].base;
  }
}

int64_t Memory::BlockShift(const RowLayout& layout, int64_t time) const {
  if (places_ == nullptr) return 0;
  const int64_t begin = time / places_->time_block() * places_->time_block();
  return places_->BlockOf(time) * block_rows_ - layout.offset(begin);
}

void Memory::Bind(int32_t buffer, std::byte* base) {
  slots_[static_cast<size_t>(buffer)].base = base;
}

std::byte* Memory::Own(int32_t buffer) {
  const auto i = static_cast<size_t>(buffer);
  const int64_t wanted = BytesOf(buffer);
  if (static_cast<int64_t>(owned_[i].size()) < wanted) {
    owned_[i] = AlignedBuffer();
    owned_[i] = AlignedBuffer(static_cast<size_t>(wanted), graph_.buffers[i].name);
  }
  slots_[i].base = owned_[i].data();
  return slots_[i].base;
}

int64_t Memory::bytes() const {
  return std::accumulate(owned_.begin(), owned_.end(), int64_t{0},
                         [](int64_t sum, const AlignedBuffer& buffer) {
                           return sum + static_cast<int64_t>(buffer.size());
                         });
}

}  // namespace turbolstm
