#include "graph/walk.h"

#include <algorithm>

namespace turbolstm {

int64_t Walk::LatestReset(int64_t after, int64_t until) const {
  if (resets_ == nullptr) return -1;
  for (int64_t u = std::min(until, length_ - 1); u > after && u >= 0; --u) {
    if (resets_[Position(u) * stride_] != 0) return u;
  }
  return -1;
}

Link Walk::Read(int64_t reader, int64_t delay) const {
  const int64_t reset = LatestReset(reader - delay, reader);
  if (reset >= 0) {
    if (resets_[Position(reset) * stride_] == kResetToZero) return {};
    return {Link::Kind::kInit, reader - reset};
  }
  if (reader < delay) return {Link::Kind::kInit, reader};
  return {Link::Kind::kStep, Position(reader - delay)};
}

Link Walk::ReadAhead(int64_t reader, int64_t delay) const {
  const int64_t source = reader + delay;
  if (source >= length_ || LatestReset(reader, source) >= 0) return {};
  return {Link::Kind::kStep, Position(source)};
}

Link Walk::ReadFinal(int64_t reader, int64_t delay) const {
  const int64_t row = reader + delay - length_;
  if (row < 0 || LatestReset(reader, length_ - 1) >= 0) return {};
  return {Link::Kind::kInit, row};
}

}  // namespace turbolstm
