#include "io/atomic_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/philox.h"
#include "io/safetensors.h"

namespace turbolstm {
namespace {

namespace fs = std::filesystem;

std::string FileContent(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

size_t EntriesIn(const fs::path& folder) {
  return static_cast<size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

class AtomicFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("turbolstm_atomic_{}", ::getpid());
    fs::create_directories(folder_);
    std::ofstream(target_ = folder_ / "file") << "old";
  }
  void TearDown() override { fs::remove_all(folder_); }

  void ExpectOldFileAlone() const {
    EXPECT_EQ(FileContent(target_), "old");
    EXPECT_EQ(EntriesIn(folder_), 1u);
  }

  fs::path folder_;
  fs::path target_;
};

// Lowers the largest file this process may write, as a full disk would.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = old_limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_limit_);
    ::signal(SIGXFSZ, old_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*old_handler_)(int);
  rlimit old_limit_ = {};
};

TEST_F(AtomicFileTest, ReplacesOnCommitOnly) {
  AtomicFile file(target_);
  file.Write("new");
  EXPECT_EQ(FileContent(target_), "old");
  file.Commit();
  EXPECT_EQ(FileContent(target_), "new");
  EXPECT_EQ(EntriesIn(folder_), 1u);
  EXPECT_THROW(file.Write("more"), Error);
  EXPECT_THROW(file.Commit(), Error);
}

TEST_F(AtomicFileTest, WithoutCommitLeavesNothing) {
  { AtomicFile(target_).Write("new"); }
  ExpectOldFileAlone();
}

TEST_F(AtomicFileTest, CreatesANewFileInTheCurrentFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  AtomicFile file("fresh");
  file.Write("text");
  file.Commit();
  fs::current_path(before);
  EXPECT_EQ(FileContent(folder_ / "fresh"), "text");
}

TEST_F(AtomicFileTest, FailedWriteNamesFileAndReasonAndKeepsTheOldFile) {
  const std::string much(100000, 'x');
  std::string text;
  {
    const FileSizeLimit limit(5000);
    try {
      AtomicFile file(target_);
      file.Write(much);
      file.Commit();
    } catch (const Error& error) {
      text = error.what();
    }
  }
  EXPECT_NE(text.find(target_.string()), std::string::npos) << text;
  EXPECT_NE(text.find(std::strerror(EFBIG)), std::string::npos) << text;
  ExpectOldFileAlone();
}

TEST_F(AtomicFileTest, RefusesDevicesFoldersAndMissingFolders) {
  EXPECT_THROW(AtomicFile("/dev/full"), Error);
  EXPECT_THROW(AtomicFile{folder_}, Error);
  EXPECT_THROW(AtomicFile(folder_ / "absent" / "file"), Error);
  ExpectOldFileAlone();
}

TEST_F(AtomicFileTest, FollowsASymbolicLink) {
  fs::create_symlink(target_, folder_ / "link");
  AtomicFile file(folder_ / "link");
  file.Write("new");
  file.Commit();
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(FileContent(target_), "new");
}

TEST_F(AtomicFileTest, RefusesASecondWriterAndLeavesTheFirstAlone) {
  AtomicFile first(target_);
  first.Write("first");
  EXPECT_THROW(AtomicFile{target_}, Error);
  first.Commit();
  EXPECT_EQ(FileContent(target_), "first");
}

// A checkpoint whose tensors all hold the number of the save, so that a mixture would show.
SafetensorsFile Generation(int32_t number) {
  constexpr size_t kElements = 50000;
  SafetensorsFile file;
  for (const char* const name : {"a", "b", "c"}) {
    const std::vector<int32_t> values(kElements, number);
    const auto bytes = std::as_bytes(std::span(values));
    file.tensors.push_back({name, DType::kInt32, {kElements}, {bytes.begin(), bytes.end()}});
  }
  return file;
}

TEST_F(AtomicFileTest, KilledDuringSaveTheLastGoodFileLoads) {
  const fs::path path = folder_ / "checkpoint";
  WriteSafetensors(path, Generation(0));
  const RandomSite random{.seed = 1};
  int32_t last = 0;
  for (uint64_t kill = 0; kill < 60; ++kill) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int32_t next = last + 1;; ++next) WriteSafetensors(path, Generation(next));
    }
    // Ever longer until a save has finished, however busy the machine is.
    const double longest = last > 0 ? 20'000 : 20'000 * (1 + static_cast<double>(kill));
    ::usleep(static_cast<useconds_t>(random.Uniform(kill) * longest));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);

    const SafetensorsFile file = ReadSafetensors(path);
    int32_t number = -1;
    std::memcpy(&number, file.At("a").bytes.data(), sizeof number);
    EXPECT_GE(number, last);
    ASSERT_TRUE(file == Generation(number)) << "mixed after kill " << kill;
    last = number;
  }
  EXPECT_GT(last, 0) << "no save ever finished: the test tested nothing";
  WriteSafetensors(path, Generation(-1));  // a left-over .part does not block the next save
  EXPECT_EQ(EntriesIn(folder_), 2u);
}

}  // namespace
}  // namespace turbolstm
