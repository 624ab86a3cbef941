#pragma once

#include <filesystem>
#include <string>

namespace turbolstm {

// The whole content of a regular file. Throws Error naming the file and the system's reason.
std::string ReadFile(const std::filesystem::path& path);

}  // namespace turbolstm
