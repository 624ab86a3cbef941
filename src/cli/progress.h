#pragma once

#include <chrono>

#include "train/trainer.h"

namespace turbolstm::cli {

// A bar on the error output that shows how far an epoch is; silent where that is no terminal.
class Progress {
 public:
  Progress();

  void Show(const BatchReport& report);
  // Makes room for lines of text.
  void Clear();

 private:
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace turbolstm::cli
