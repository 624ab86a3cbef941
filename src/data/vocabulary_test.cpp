#include "data/vocabulary.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/encoded_texts.h"

namespace turbolstm {
namespace {

std::vector<TextSample> Samples() {
  return {{"0", "b a c a", 0}, {"1", "", 1}, {"2", "d b a é", 1}};
}

TEST(Vocabulary, KeepsTheMostFrequentAndBreaksTiesByBytes) {
  const Vocabulary all = Vocabulary::FromTexts(Samples(), 100);
  EXPECT_EQ(all.ToText(),
            "<pad>\n<unk>\na\nb\nc\n"
            "d\né\n");
  EXPECT_EQ(Vocabulary::FromTexts(Samples(), 4).ToText(), "<pad>\n<unk>\na\nb\n");
  EXPECT_EQ(Vocabulary::FromTexts(Samples(), 2).size(), 2);
  EXPECT_EQ(Vocabulary::FromTexts({}, 5).size(), 2);
  EXPECT_THROW(Vocabulary::FromTexts({}, 1), Error);
}

TEST(Vocabulary, MapsBothWays) {
  const Vocabulary vocabulary = Vocabulary::FromTexts(Samples(), 5);
  EXPECT_EQ(vocabulary.Id("a"), 2);
  EXPECT_EQ(vocabulary.Token(2), "a");
  EXPECT_EQ(vocabulary.Id("d"), Vocabulary::kUnknown);
  EXPECT_EQ(vocabulary.Id("<pad>"), Vocabulary::kPadding);
  EXPECT_THROW(vocabulary.Token(5), Error);
  EXPECT_THROW(vocabulary.Token(-1), Error);
}

TEST(Vocabulary, TextReadsBack) {
  const Vocabulary vocabulary = Vocabulary::FromTexts(Samples(), 100);
  const Vocabulary again = Vocabulary::FromText(vocabulary.ToText(), "x");
  EXPECT_EQ(again.ToText(), vocabulary.ToText());
  EXPECT_EQ(again.Id("é"), vocabulary.Id("é"));
}

TEST(Vocabulary, BadTextNamesTheLine) {
  const auto expect = [](const char* text, const char* part) {
    try {
      Vocabulary::FromText(text, "v.txt");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  expect("", "v.txt");
  expect("<pad>\n", "has 1 lines");
  expect("a\n<unk>\n", "v.txt:1");
  expect("<pad>\nb\n", "v.txt:2");
  expect("<pad>\n<unk>\na\na\n", "v.txt:4");
  expect("<pad>\n<unk>\n<pad>\n", "v.txt:3");
  expect("<pad>\n<unk>\n\n", "v.txt:3");
  expect("<pad>\n<unk>\n\xff\n", "v.txt:3");
  expect("<pad>\n<unk>\nab", "truncated");
  EXPECT_THROW(Vocabulary::Load("/absent"), Error);
}

TEST(EncodeText, KeepsHeadOrTail) {
  const Vocabulary vocabulary = Vocabulary::FromTexts(Samples(), 100);
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(EncodeText("a b c unseen", vocabulary, {}), (Ids{2, 3, 4, 1}));
  EXPECT_EQ(EncodeText("a b c", vocabulary, {.max_length = 2}), (Ids{2, 3}));
  EXPECT_EQ(EncodeText("a b c", vocabulary, {.max_length = 2, .keep = KeepEnd::kTail}),
            (Ids{3, 4}));
  EXPECT_EQ(EncodeText("a b", vocabulary, {.max_length = 2, .keep = KeepEnd::kTail}), (Ids{2, 3}));
  EXPECT_EQ(EncodeText("", vocabulary, {}), Ids{});
  EXPECT_THROW(EncodeText("a", vocabulary, {.max_length = 0}), Error);
}

TEST(EncodedTexts, HoldsEveryTextWithItsLabel) {
  const Vocabulary vocabulary = Vocabulary::FromTexts(Samples(), 100);
  const EncodedTexts texts = EncodeTexts(Samples(), vocabulary, {});
  EXPECT_EQ(texts.size(), 3);
  EXPECT_EQ(texts.labels, (std::vector<int32_t>{0, 1, 1}));
  EXPECT_EQ(texts.Lengths(), (std::vector<int64_t>{4, 0, 4}));
  const auto last = texts.Tokens(2);
  EXPECT_EQ(std::vector<int32_t>(last.begin(), last.end()), (std::vector<int32_t>{5, 3, 2, 6}));
  EXPECT_EQ(EncodeTexts({}, vocabulary, {}).size(), 0);
}

}  // namespace
}  // namespace turbolstm
