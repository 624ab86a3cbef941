#include "io/onnx/read_file.h"

#include <fstream>
#include <limits>

#include "base/error.h"

namespace turbolstm {

std::string ReadProtobufFile(const std::filesystem::path& path) {
  std::error_code error;
  TL_CHECK(std::filesystem::is_regular_file(path, error), "[{}] not a file", path.string());
  const uintmax_t size = std::filesystem::file_size(path, error);
  TL_CHECK(!error, "[{}] {}", path.string(), error.message());
  constexpr uintmax_t kMost = std::numeric_limits<int32_t>::max();
  TL_CHECK(size <= kMost, "[{}] has {} bytes, at most {} can be read", path.string(), size, kMost);
  std::ifstream file(path, std::ios::binary);
  std::string bytes(size, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(size));
  TL_CHECK(file && static_cast<uintmax_t>(file.gcount()) == size, "[{}] got {} of {} bytes",
           path.string(), file.gcount(), size);
  return bytes;
}

}  // namespace turbolstm
