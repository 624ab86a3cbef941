#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace turbolstm {

// Replaces a file as a whole or not at all. Bytes go to `<name>.part` beside the target; Commit()
// syncs it, renames it over the target and syncs the directory. Whoever dies in between, by a kill
// or a full disk, leaves the old file as it was; a left-over .part is reused by the next writer.
// Throws Error naming the file and the system's reason; the .part is removed then.
class AtomicFile {
 public:
  // A symbolic link is followed; a target that exists and is no regular file is refused, and so is
  // a second writer of the same target at the same time.
  explicit AtomicFile(const std::filesystem::path& target);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void Write(std::span<const std::byte> bytes);
  void Write(std::string_view text);
  void Commit();

 private:
  [[noreturn]] void FailWithErrno(std::string_view action);
  void OpenPart();
  bool LockPart();
  void Abandon() noexcept;

  std::filesystem::path target_;
  std::filesystem::path part_;
  int fd_ = -1;
};

}  // namespace turbolstm
