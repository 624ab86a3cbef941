#include "base/read_file.h"

#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/error.h"

namespace turbolstm {

std::string ReadFile(const std::filesystem::path& path) {
  std::error_code failure;
  const auto status = std::filesystem::status(path, failure);
  TL_CHECK(!std::filesystem::exists(status) || std::filesystem::is_regular_file(status),
           "[{}] cannot be read: it is not a regular file", path.string());
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  std::string content;
  if (stream) content.assign(std::istreambuf_iterator<char>(stream), {});
  TL_CHECK(stream && !stream.bad(), "[{}] cannot be read: {}", path.string(),
           std::error_code(errno, std::generic_category()).message());
  return content;
}

}  // namespace turbolstm
