#include "data/text_data.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "base/error_test.h"
#include "data/imdb.h"
#include "data/rated_text.h"

namespace turbolstm {
namespace {

namespace fs = std::filesystem;

TEST(RatedText, ReadsLinesAndDropsTheNeutral) {
  const auto samples = ParseRatedText(
      "\xEF\xBB\xBF"
      "1\t2.5\tGood fun\r\n2\t-0.4\tMeh\n3\t-0.5\tDull\n4\t0\tA film\n5\t1e0\t",
      "x.tsv", 0.5);
  EXPECT_EQ(samples,
            (std::vector<TextSample>{{"1", "Good fun", 1}, {"3", "Dull", 0}, {"5", "", 1}}));
  EXPECT_EQ(ParseRatedText("1\t0.0\ta\n2\t-0.1\tb\n", "x.tsv", 0).size(), 1u);
  EXPECT_TRUE(ParseRatedText("", "x.tsv", 0).empty());
}

TEST(RatedText, BadLinesAreNamed) {
  const auto error = [](const char* content) {
    return ErrorOf([&] { ParseRatedText(content, "x.tsv", 0); });
  };
  ExpectParts(error("1\t1\ta\n2\t1\n"), {"x.tsv:2", "has 2 columns", "wants 3"});
  ExpectParts(error("1\t1\ta\n\n2\t1\tb"), {"x.tsv:2", "has 1 columns"});
  ExpectParts(error("1\t1\ta\tb\n"), {"x.tsv:1", "has 4 columns"});
  ExpectParts(error("1\tgood\ta\n"), {"x.tsv:1", "'good'", "a number"});
  ExpectParts(error("1\t1.0x\ta\n"), {"x.tsv:1", "'1.0x'"});
  ExpectParts(error("1\tnan\ta\n"), {"x.tsv:1", "'nan'"});
  ExpectParts(error("1\t\ta\n"), {"x.tsv:1", "''"});
  ExpectParts(error("1\t1\ta\n2\t1\tb\n1\t2\tc\n"), {"x.tsv:3", "id '1'"});
  ExpectParts(error("1\t1\ta\n2\t1\tb\xff\n"), {"x.tsv:2", "UTF-8", "byte 6"});
}

class DataFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("turbolstm_data_{}", ::getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void Put(const fs::path& name, const std::string& content) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  void PutReviews() const {
    for (const char* const part : {"train", "test"}) {
      Put(fs::path(part) / "neg" / "10_1.txt", "bad");
      Put(fs::path(part) / "neg" / "9_4.txt", "poor<br />film");
      Put(fs::path(part) / "pos" / "0_10.txt", part);
      Put(fs::path(part) / "pos" / ".hidden", "ignored");
    }
  }

  fs::path folder_;
};

TEST_F(DataFolderTest, ReadsTheImdbLayoutInAFixedOrder) {
  PutReviews();
  EXPECT_EQ(ReadImdb(folder_, "train"),
            (std::vector<TextSample>{{"train/neg/9_4", "poor<br />film", 0},
                                     {"train/neg/10_1", "bad", 0},
                                     {"train/pos/0_10", "train", 1}}));
  const TextData data = LoadTextData({.kind = "imdb", .path = folder_});
  EXPECT_EQ(data.labels, (std::vector<std::string>{"negative", "positive"}));
  EXPECT_EQ(data.train.size(), 3u);
  EXPECT_EQ(data.held_out.back().text, "test");
}

TEST_F(DataFolderTest, BadReviewsAreNamed) {
  const auto error_after = [&](const fs::path& name, const std::string& content) {
    PutReviews();
    Put(name, content);
    const std::string error = ErrorOf([&] { ReadImdb(folder_, "train"); });
    fs::remove(folder_ / name);
    return error;
  };
  for (const char* const name :
       {"x.txt", "1_x.txt", "_7.txt", "1_7_8.txt", "1_7.html", "1_7 .txt"}) {
    ExpectParts(error_after(fs::path("train/pos") / name, "a"),
                {fs::path("train/pos") / name, "<id>_<rating>.txt"});
  }
  ExpectParts(error_after("train/pos/3_5.txt", "a"), {"train/pos/3_5.txt", "rating 5", "7 to 10"});
  ExpectParts(error_after("train/neg/3_0.txt", "a"), {"train/neg/3_0.txt", "rating 0", "1 to 4"});
  ExpectParts(error_after("train/pos/3_7.txt", "a\nb\xff"), {"3_7.txt:2", "UTF-8", "byte 4"});
}

TEST_F(DataFolderTest, AbsentDataSaysHowToGetIt) {
  ExpectParts(ErrorOf([&] { ReadImdb(folder_, "train"); }),
              {(folder_ / "train").string(), "aclImdb", "https://"});
  ExpectParts(ErrorOf([] { LoadTextData({.kind = "imdb"}); }), {"data.path", "aclImdb"});
  ExpectParts(ErrorOf([] { LoadTextData({.kind = "snippets", .path = "/absent"}); }),
              {"/absent", "scripts/fetch_sentiment.sh"});
  ExpectParts(ErrorOf([] { LoadTextData({.kind = "tsv"}); }), {"tsv", "data.path"});
  ExpectParts(ErrorOf([] { LoadTextData({.kind = "mnist"}); }), {"'mnist'", "imdb"});
  PutReviews();
  fs::remove_all(folder_ / "test/pos");
  fs::create_directories(folder_ / "test/pos");
  ExpectParts(ErrorOf([&] { ReadImdb(folder_, "test"); }), {"test/pos", "no reviews"});
}

TEST_F(DataFolderTest, SplitsRatedTextBySeed) {
  std::string content;
  for (int i = 0; i < 200; ++i) content += fmt::format("{}\t{}\ttext {}\n", i, i % 2 ? 1 : -1, i);
  Put("x.tsv", content);
  TextSource source{.kind = "tsv", .path = folder_ / "x.tsv", .held_out = 0.25, .seed = 5};
  const TextData data = LoadTextData(source);
  EXPECT_EQ(data.held_out.size(), 50u);
  std::set<std::string> ids;
  for (const auto* part : {&data.train, &data.held_out}) {
    for (const TextSample& sample : *part) {
      EXPECT_TRUE(ids.insert(sample.id).second);
      EXPECT_EQ(sample.text, "text " + sample.id);
    }
  }
  EXPECT_EQ(ids.size(), 200u);
  EXPECT_EQ(LoadTextData(source).held_out, data.held_out);
  source.seed = 6;
  EXPECT_NE(LoadTextData(source).held_out, data.held_out);

  source.neutral_below = 2;
  ExpectParts(ErrorOf([&] { LoadTextData(source); }), {"x.tsv", "no line with a rating"});
}

}  // namespace
}  // namespace turbolstm
