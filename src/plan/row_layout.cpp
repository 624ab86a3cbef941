#include "plan/row_layout.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace turbolstm {

RowLayout::RowLayout(int64_t steps, int64_t batch, std::span<const int32_t> lengths,
                     std::span<const uint8_t> resets)
    : steps_(steps), batch_(batch) {
  TL_CHECK(steps >= 0 && batch >= 0, "[shape] got {} steps and {} sequences, wants >= 0", steps,
           batch);
  // Bytes of any buffer must be countable.
  constexpr int64_t kMostRows = int64_t{1} << 40;
  TL_CHECK(batch == 0 || steps <= kMostRows / batch,
           "[shape] got {} steps and {} sequences: too many rows", steps, batch);
  TL_CHECK(lengths.empty() || std::ssize(lengths) == batch, "[lengths] got {}, wants {}",
           lengths.size(), batch);
  TL_CHECK(resets.empty() || std::ssize(resets) == steps * batch, "[resets] got {}, wants {} x {}",
           resets.size(), steps, batch);
  for (size_t b = 0; b < lengths.size(); ++b) {
    TL_CHECK(lengths[b] >= 0 && lengths[b] <= steps, "[lengths] entry {} is {}, wants 0 to {}", b,
             lengths[b], steps);
  }
  const auto length_of = [&](int64_t b) {
    return lengths.empty() ? steps : int64_t{lengths[static_cast<size_t>(b)]};
  };
  sequences_.resize(static_cast<size_t>(batch));
  std::iota(sequences_.begin(), sequences_.end(), 0);
  std::stable_sort(sequences_.begin(), sequences_.end(),
                   [&](int64_t a, int64_t b) { return length_of(a) > length_of(b); });
  for (const int64_t b : sequences_) lengths_.push_back(length_of(b));

  int64_t active = batch;
  for (int64_t t = 0; t < steps; ++t) {
    while (active > 0 && length(active - 1) <= t) --active;
    offsets_.push_back(offsets_.back() + active);
  }
  dense_ = rows() == steps * batch;
  for (int64_t i = 0; i < std::ssize(resets); ++i) {
    resets_.push_back(resets[static_cast<size_t>(i / batch * batch + sequence(i % batch))]);
  }
}

Walk RowLayout::WalkOf(int64_t place, Direction direction) const {
  return Walk(length(place), direction, has_resets() ? resets_.data() + place : nullptr, batch_);
}

}  // namespace turbolstm
