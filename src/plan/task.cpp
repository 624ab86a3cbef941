#include "plan/task.h"

#include <fmt/core.h>

#include <algorithm>

namespace turbolstm {

bool Access::Overlaps(const Access& other) const {
  return SharedElements(other) > 0;
}

int64_t Access::SharedElements(const Access& other) const {
  if (buffer != other.buffer) return 0;
  const auto shared = [](int64_t begin, int64_t end, int64_t other_begin, int64_t other_end) {
    return std::max<int64_t>(std::min(end, other_end) - std::max(begin, other_begin), 0);
  };
  return shared(time_begin, time_end, other.time_begin, other.time_end) *
         shared(row_begin, row_end, other.row_begin, other.row_end) *
         shared(column_begin, column_end, other.column_begin, other.column_end);
}

std::string Describe(const Access& access) {
  return fmt::format("buffer {}, time {}:{}, rows {}:{}, columns {}:{}", access.buffer,
                     access.time_begin, access.time_end, access.row_begin, access.row_end,
                     access.column_begin, access.column_end);
}

}  // namespace turbolstm
