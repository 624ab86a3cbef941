#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>

namespace turbolstm::cli {

std::string Table::Text() const {
  std::vector<size_t> widths(columns_.size(), 0);
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += columns_[i] == Align::kLeft ? fmt::format("{:<{}}  ", row[i], widths[i])
                                          : fmt::format("{:>{}}  ", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace turbolstm::cli
