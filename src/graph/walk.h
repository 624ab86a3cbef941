#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace turbolstm {

// What a delayed read finds.
struct Link {
  enum class Kind : uint8_t {
    kStep,     // the source's value at step `index`
    kInit,     // row `index` of the initial value
    kNothing,  // zero
  };
  Kind kind = Kind::kNothing;
  int64_t index = 0;

  bool operator==(const Link&) const = default;
};

// A reset: what is read of the past behind it is the initial value, or zero.
inline constexpr uint8_t kResetToInit = 1;
inline constexpr uint8_t kResetToZero = 2;

// The way of one direction through one sequence: position u = 0, 1, ... is step u when it goes
// forward, step length - 1 - u in reverse. A reset starts the walk anew: at its position and
// later ones nothing from before it can be read.
class Walk {
 public:
  // resets: null, or for each step 0 or one of the above, `stride` apart.
  Walk(int64_t length, Direction direction, const uint8_t* resets = nullptr, int64_t stride = 1)
      : length_(length), direction_(direction), resets_(resets), stride_(stride) {}

  int64_t length() const { return length_; }
  // Its own inverse.
  int64_t Position(int64_t step) const {
    return direction_ == Direction::kForward ? step : length_ - 1 - step;
  }

  // What a reader at position `reader` finds `delay` > 0 positions before itself. The reader may
  // stand behind the end (final states); there are no resets there.
  Link Read(int64_t reader, int64_t delay) const;
  // The adjoint of Read: the reader who looks `delay` positions ahead, and finds something only
  // if that one, looking back, would find it.
  Link ReadAhead(int64_t reader, int64_t delay) const;
  // Which row of the final state of an edge with `delay` comes from position `reader`: the
  // adjoint of what Read(length + row, delay) finds. A row is said as Kind::kInit.
  Link ReadFinal(int64_t reader, int64_t delay) const;

 private:
  // The latest reset at a position in (after, until], or -1.
  int64_t LatestReset(int64_t after, int64_t until) const;

  int64_t length_;
  Direction direction_;
  const uint8_t* resets_;
  int64_t stride_;
};

}  // namespace turbolstm
