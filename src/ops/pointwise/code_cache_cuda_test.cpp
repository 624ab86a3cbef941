#include "ops/pointwise/code_cache_cuda.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace turbolstm::cuda {
namespace {

namespace fs = std::filesystem;

class CodeCacheTest : public testing::Test {
 protected:
  CodeCacheTest()
      : folder_(fs::temp_directory_path() /
                ("code_cache_" + std::to_string(getpid()) + "_" +
                 testing::UnitTest::GetInstance()->current_test_info()->name())) {}
  ~CodeCacheTest() override { fs::remove_all(folder_); }

  std::string ReadFile(const std::string& key) const {
    std::ifstream in(CodeCache(folder_).FileOf(key), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void WriteFile(const std::string& key, const std::string& bytes) const {
    std::ofstream(CodeCache(folder_).FileOf(key), std::ios::binary) << bytes;
  }

  const fs::path folder_;
  const std::string key_ = "a source\nwith lines";
  const std::vector<char> code_{'\x7f', 'E', '\0', '\n', 'x'};
};

TEST_F(CodeCacheTest, FindsWhatWasStored) {
  const CodeCache cache(folder_ / "deeper");
  EXPECT_FALSE(cache.Find(key_));
  cache.Store(key_, code_);
  EXPECT_EQ(cache.Find(key_), code_);
  EXPECT_FALSE(cache.Find(key_ + " "));
  cache.Store(key_, {});
  EXPECT_EQ(cache.Find(key_), std::vector<char>());
  // Nothing is left beside the file.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "deeper"), fs::directory_iterator()), 1);
}

TEST_F(CodeCacheTest, DamagedFilesAreIgnoredAndReplaced) {
  const CodeCache cache(folder_);
  cache.Store(key_, code_);
  const std::string whole = ReadFile(key_);
  for (size_t size = 0; size < whole.size(); ++size) {
    WriteFile(key_, whole.substr(0, size));
    EXPECT_FALSE(cache.Find(key_)) << size;
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    WriteFile(key_, damaged);
    EXPECT_FALSE(cache.Find(key_)) << i;
  }
  WriteFile(key_, whole + "x");
  EXPECT_FALSE(cache.Find(key_));
  cache.Store(key_, code_);
  EXPECT_EQ(cache.Find(key_), code_);
}

TEST_F(CodeCacheTest, FileOfAnotherKeyIsNotTaken) {
  const CodeCache cache(folder_);
  cache.Store(key_, code_);
  WriteFile("another source", ReadFile(key_));
  EXPECT_FALSE(cache.Find("another source"));
}

TEST_F(CodeCacheTest, FolderThatCannotBeMadeIsNoError) {
  std::ofstream(folder_.string()) << "a file";
  const CodeCache cache(folder_);
  cache.Store(key_, code_);
  EXPECT_FALSE(cache.Find(key_));
  const CodeCache none{fs::path()};
  none.Store(key_, code_);
  EXPECT_FALSE(none.Find(key_));
}

TEST_F(CodeCacheTest, FolderComesFromTheEnvironment) {
  setenv("HOME", "/home/someone", 1);
  unsetenv("XDG_CACHE_HOME");
  unsetenv("TURBOLSTM_CACHE");
  EXPECT_EQ(CodeCache::DefaultFolder(), "/home/someone/.cache/turbolstm");
  setenv("XDG_CACHE_HOME", "/caches", 1);
  EXPECT_EQ(CodeCache::DefaultFolder(), "/caches/turbolstm");
  setenv("TURBOLSTM_CACHE", "/mine", 1);
  EXPECT_EQ(CodeCache::DefaultFolder(), "/mine");
}

}  // namespace
}  // namespace turbolstm::cuda
