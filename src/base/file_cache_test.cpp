#include "base/file_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace turbolstm {
namespace {

namespace fs = std::filesystem;

class FileCacheTest : public testing::Test {
 protected:
  FileCacheTest()
      : folder_(fs::temp_directory_path() /
                ("file_cache_" + std::to_string(getpid()) + "_" +
                 testing::UnitTest::GetInstance()->current_test_info()->name())) {}
  ~FileCacheTest() override { fs::remove_all(folder_); }

  std::string ReadFile(const std::string& key) const {
    std::ifstream in(FileCache(folder_, "test").FileOf(key), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void WriteFile(const std::string& key, const std::string& bytes) const {
    std::ofstream(FileCache(folder_, "test").FileOf(key), std::ios::binary) << bytes;
  }

  const fs::path folder_;
  const std::string key_ = "a source\nwith lines";
  const std::vector<char> bytes_{'\x7f', 'E', '\0', '\n', 'x'};
};

TEST_F(FileCacheTest, FindsWhatWasStored) {
  const FileCache cache(folder_ / "deeper", "test");
  EXPECT_FALSE(cache.Find(key_));
  cache.Store(key_, bytes_);
  EXPECT_EQ(cache.Find(key_), bytes_);
  EXPECT_FALSE(cache.Find(key_ + " "));
  cache.Store(key_, {});
  EXPECT_EQ(cache.Find(key_), std::vector<char>());
  // Nothing is left beside the file.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "deeper"), fs::directory_iterator()), 1);
}

TEST_F(FileCacheTest, DamagedFilesAreIgnoredAndReplaced) {
  const FileCache cache(folder_, "test");
  cache.Store(key_, bytes_);
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
  cache.Store(key_, bytes_);
  EXPECT_EQ(cache.Find(key_), bytes_);
}

TEST_F(FileCacheTest, FileOfAnotherKeyIsNotTaken) {
  const FileCache cache(folder_, "test");
  cache.Store(key_, bytes_);
  WriteFile("another source", ReadFile(key_));
  EXPECT_FALSE(cache.Find("another source"));
}

TEST_F(FileCacheTest, FolderThatCannotBeMadeIsNoError) {
  std::ofstream(folder_.string()) << "a file";
  const FileCache cache(folder_, "test");
  cache.Store(key_, bytes_);
  EXPECT_FALSE(cache.Find(key_));
  const FileCache none(fs::path(), "test");
  none.Store(key_, bytes_);
  EXPECT_FALSE(none.Find(key_));
}

TEST_F(FileCacheTest, FolderComesFromTheEnvironment) {
  setenv("HOME", "/home/someone", 1);
  unsetenv("XDG_CACHE_HOME");
  unsetenv("TURBOLSTM_CACHE");
  EXPECT_EQ(FileCache::DefaultFolder(), "/home/someone/.cache/turbolstm");
  setenv("XDG_CACHE_HOME", "/caches", 1);
  EXPECT_EQ(FileCache::DefaultFolder(), "/caches/turbolstm");
  setenv("TURBOLSTM_CACHE", "/mine", 1);
  EXPECT_EQ(FileCache::DefaultFolder(), "/mine");
}

TEST_F(FileCacheTest, KindsDoNotMix) {
  FileCache(folder_, "test").Store(key_, bytes_);
  EXPECT_FALSE(FileCache(folder_, "other").Find(key_));
}

// Whoever comes last wins; nobody ever sees a part.
TEST_F(FileCacheTest, WritersAndReadersAtOnceSeeWholeEntries) {
  const auto entry = [](int writer) {
    return std::vector<char>(static_cast<size_t>(20'000 + writer), static_cast<char>('a' + writer));
  };
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&, writer] {
      for (int i = 0; i < 50; ++i) FileCache(folder_, "test").Store(key_, entry(writer));
    });
  }
  for (int i = 0; i < 200; ++i) {
    const auto found = FileCache(folder_, "test").Find(key_);
    if (found) {
      EXPECT_EQ(*found, entry(found->front() - 'a'));
    }
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_TRUE(FileCache(folder_, "test").Find(key_));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

// A file as large as the process may write is as full as a disk.
TEST_F(FileCacheTest, AFullDiskIsNoErrorAndLeavesNothing) {
  FileCache(folder_, "test").Store(key_, bytes_);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{1000, old.rlim_max};
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  FileCache(folder_, "test").Store(key_, std::vector<char>(100'000, 'x'));
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(FileCache(folder_, "test").Find(key_), bytes_);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace turbolstm
