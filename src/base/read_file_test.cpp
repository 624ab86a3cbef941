#include "base/read_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"

namespace turbolstm {
namespace {

namespace fs = std::filesystem;

TEST(ReadFile, KeepsEveryByte) {
  const fs::path path = fs::temp_directory_path() / fmt::format("turbolstm_read_{}", ::getpid());
  const std::string content("a\r\n\0\xff\n", 6);
  std::ofstream(path, std::ios::binary) << content;
  EXPECT_EQ(ReadFile(path), content);
  std::ofstream(path, std::ios::trunc).flush();
  EXPECT_EQ(ReadFile(path), "");
  fs::remove(path);
}

TEST(ReadFile, NamesFileAndReason) {
  for (const auto& [path, reason] :
       {std::pair("/absent/file", "No such file"), std::pair("/dev", "not a regular file")}) {
    try {
      ReadFile(path);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(path), std::string::npos) << text;
      EXPECT_NE(text.find(reason), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace turbolstm
