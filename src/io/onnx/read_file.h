#pragma once

#include <filesystem>
#include <string>

namespace turbolstm {

// The whole file. Throws Error naming it if it is missing, not a regular file, or larger than
// protobuf can parse (2 GiB).
std::string ReadProtobufFile(const std::filesystem::path& path);

}  // namespace turbolstm
