#pragma once

#include <filesystem>
#include <string>

#include "train/text_task.h"

namespace turbolstm {

// For tests. Sentences of 1 to 12 words, positive when they hold "good" and negative when "bad".
TextTask MakeToyTask(int64_t train, int64_t held_out);

// A small, quick model for it.
Config ToyConfig();

// A folder for one test that goes with it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace turbolstm
