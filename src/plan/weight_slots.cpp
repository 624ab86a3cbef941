#include "plan/weight_slots.h"

#include <algorithm>
#include <numeric>

#include "ops/matmul/matmul.h"

namespace turbolstm {
namespace {

int64_t BytesOf(const PackedWeight& weight, Precision precision) {
  const std::vector<int64_t>& shape = weight.features;
  const int64_t heads = shape.size() == 3 ? shape[0] : 1;
  const int64_t rows = shape.end()[-2];
  const int64_t columns = shape.back();
  const DType type = precision == Precision::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
  return weight.transposed ? PackedBytes(rows, columns, type, heads)
                           : PackedBytes(columns, rows, type, heads);
}

}  // namespace

WeightSlots::WeightSlots(const LoweredGraph& graph) : slot_of_(graph.weights.size(), -1) {
  for (const PackedWeight& weight : graph.weights) {
    bytes_.push_back(BytesOf(weight, graph.precision));
    repacked_.push_back(
        std::any_of(graph.weights.begin(), graph.weights.end(), [&](const PackedWeight& other) {
          return other.matrix == weight.matrix && other.transposed != weight.transposed;
        }));
  }
}

void WeightSlots::Take(int32_t weight) {
  const auto w = static_cast<size_t>(weight);
  int32_t slot = repacked_[w] ? BestFit(bytes_[w]) : -1;
  if (slot < 0) {
    slot = count();
    slots_.emplace_back();
  }
  Place& place = slots_[static_cast<size_t>(slot)];
  place.bytes = std::max(place.bytes, bytes_[w]);
  place.free = false;
  ++place.holders;
  slot_of_[w] = slot;
}

void WeightSlots::Release(int32_t weight) {
  if (repacked_[static_cast<size_t>(weight)]) slots_[Slot(weight)].free = true;
}

// The smallest that is large enough; else the largest, which then grows least. Of equal ones the
// first, whose products end first.
int32_t WeightSlots::BestFit(int64_t bytes) const {
  int32_t best = -1;
  for (int32_t i = 0; i < count(); ++i) {
    const Place& place = slots_[static_cast<size_t>(i)];
    if (!place.free) continue;
    if (best < 0) {
      best = i;
      continue;
    }
    const int64_t known = slots_[static_cast<size_t>(best)].bytes;
    const bool better =
        known >= bytes ? place.bytes >= bytes && place.bytes < known : place.bytes > known;
    if (better) best = i;
  }
  return best;
}

int64_t WeightSlots::bytes() const {
  return std::accumulate(slots_.begin(), slots_.end(), int64_t{0},
                         [](int64_t sum, const Place& place) { return sum + place.bytes; });
}

}  // namespace turbolstm
