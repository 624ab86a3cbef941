#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/walk.h"

namespace turbolstm {

// How the sequences of a batch lie in memory: longest first, and of each step only the rows of
// sequences that reach it, one step after the other. Padding takes neither memory nor time.
class RowLayout {
 public:
  RowLayout() = default;
  // lengths: [B], or empty for all `steps`; resets: [steps, B] or empty, in the caller's order.
  // Error: a length outside 0..steps, or a wrong size.
  RowLayout(int64_t steps, int64_t batch, std::span<const int32_t> lengths = {},
            std::span<const uint8_t> resets = {});

  int64_t steps() const { return steps_; }
  int64_t batch() const { return batch_; }
  int64_t rows() const { return offsets_.back(); }
  // Rows of step t: [offset(t), offset(t) + count(t)); row b of them is the sequence at place b.
  int64_t offset(int64_t t) const { return offsets_[static_cast<size_t>(t)]; }
  int64_t count(int64_t t) const { return offset(t + 1) - offset(t); }
  // The row of a Step or Batch value that holds the sequence at a place.
  int64_t row(Domain domain, int64_t t, int64_t place) const {
    return domain == Domain::kStep ? offset(t) + place : place;
  }
  int64_t length(int64_t place) const { return lengths_[static_cast<size_t>(place)]; }
  // The caller's number of the sequence at a place.
  int64_t sequence(int64_t place) const { return sequences_[static_cast<size_t>(place)]; }
  // Whether rows lie exactly as the caller's [T, B].
  bool dense() const { return dense_; }
  bool has_resets() const { return !resets_.empty(); }

  bool is_reset(int64_t t, int64_t place) const { return reset(t, place) != 0; }
  // 0, kResetToInit or kResetToZero.
  uint8_t reset(int64_t t, int64_t place) const {
    return has_resets() ? resets_[static_cast<size_t>(t * batch_ + place)] : uint8_t{0};
  }

  Walk WalkOf(int64_t place, Direction direction) const;

 private:
  int64_t steps_ = 0;
  int64_t batch_ = 0;
  bool dense_ = true;
  std::vector<int64_t> offsets_ = {0};
  std::vector<int64_t> lengths_;
  std::vector<int64_t> sequences_;
  std::vector<uint8_t> resets_;  // [T, B], by place
};

}  // namespace turbolstm
