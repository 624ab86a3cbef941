#pragma once

#include <string>
#include <vector>

namespace turbolstm::cli {

// Rows of text, printed in columns as wide as their widest cell.
class Table {
 public:
  enum class Align { kLeft, kRight };

  // One alignment a column.
  explicit Table(std::vector<Align> columns) : columns_(std::move(columns)) {}

  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string Text() const;

 private:
  std::vector<Align> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace turbolstm::cli
