#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace turbolstm {

// What a task touches of a buffer: a half-open box. Step buffers have time, rows (sequences) and
// columns (features); batch buffers have no time (0..1); static ones, such as parameters, have
// columns as they like. An empty box touches nothing.
struct Access {
  int32_t buffer = 0;  // small numbers: tables are indexed by them
  int64_t time_begin = 0, time_end = 0;
  int64_t row_begin = 0, row_end = 0;
  int64_t column_begin = 0, column_end = 0;

  bool Empty() const {
    return time_begin >= time_end || row_begin >= row_end || column_begin >= column_end;
  }
  bool Overlaps(const Access& other) const;
  // Elements that both touch; 0 without overlap.
  int64_t SharedElements(const Access& other) const;
  bool operator==(const Access&) const = default;
};

// "buffer 3, time 0:10, rows 0:16, columns 0:512"
std::string Describe(const Access& access);

// One call of a kernel on a tile of its output. The order in which tasks are listed is the meaning
// of the program; whatever runs them must look like running them in that order.
struct Task {
  std::string name;
  int32_t group = 0;                     // what to run: index into the lowered program
  int64_t time_begin = 0, time_end = 0;  // the tile
  int64_t row_begin = 0, row_end = 0;
  double cost = 0;  // estimated seconds
  std::vector<Access> reads, writes;
};

}  // namespace turbolstm
