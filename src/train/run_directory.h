#pragma once

#include <filesystem>

#include "train/config.h"

namespace turbolstm {

enum class ExistingRun { kRefuse, kReplace };

// The files of one training run. They suffice to evaluate and predict, wherever they are moved.
class RunDirectory {
 public:
  explicit RunDirectory(std::filesystem::path path) : path_(std::move(path)) {}

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config() const { return path_ / "config.toml"; }
  std::filesystem::path vocabulary() const { return path_ / "vocabulary.txt"; }
  std::filesystem::path log() const { return path_ / "log.csv"; }
  // The state behind the last finished epoch, or the last batch of an interrupted run.
  std::filesystem::path last() const { return path_ / "checkpoint.safetensors"; }
  // The weights of the epoch with the best held-out accuracy.
  std::filesystem::path best() const { return path_ / "best.safetensors"; }
  // best() where it exists, else last(). Throws Error saying what is missing.
  std::filesystem::path ToLoad() const;

  // Throws Error when a run is there already and is not to be replaced, or when the path cannot be
  // a folder. Writes nothing.
  void Check(ExistingRun existing) const;
  // Makes the folder, and removes the files of a run that was there.
  void Create() const;

 private:
  std::filesystem::path path_;
};

}  // namespace turbolstm
