#include "data/tokenizer.h"

#include <gtest/gtest.h>

#include "base/philox.h"
#include "data/utf8.h"

namespace turbolstm {
namespace {

using Tokens = std::vector<std::string>;

TEST(Tokenizer, WordsAndPunctuation) {
  EXPECT_EQ(Tokenize("It's GOOD, really: 10/10!"),
            (Tokens{"it's", "good", ",", "really", ":", "10", "/", "10", "!"}));
  EXPECT_EQ(Tokenize("''Quoted'' 'text' rock'n'roll dogs'"),
            (Tokens{"quoted", "text", "rock'n'roll", "dogs"}));
  EXPECT_EQ(Tokenize("so.. well..... ?!"), (Tokens{"so", "..", "well", "...", "?", "!"}));
}

TEST(Tokenizer, NothingInNothingOut) {
  EXPECT_EQ(Tokenize(""), Tokens{});
  EXPECT_EQ(Tokenize(" \t\r\n'' \x01"), Tokens{});
}

TEST(Tokenizer, LineBreakTagsSeparate) {
  EXPECT_EQ(Tokenize("a<br />b<BR>c<br/><br / >d"), (Tokens{"a", "b", "c", "d"}));
  EXPECT_EQ(Tokenize("<br /"), (Tokens{"<", "br", "/"}));
  EXPECT_EQ(Tokenize("<<br>x <brown>"), (Tokens{"<", "x", "<", "brown", ">"}));
}

TEST(Tokenizer, ReadsUtf8) {
  EXPECT_EQ(Tokenize("CAFÉ Ärger ΑΩ ЖЁ 映画"), (Tokens{"café", "ärger", "αω", "жё", "映画"}));
  EXPECT_EQ(Tokenize("don’t “quote” – … ½"), (Tokens{"don't", "“", "quote", "”", "–", "…", "½"}));
  EXPECT_EQ(Tokenize("a\u0096b\u00A0c\u3000d"), (Tokens{"a", "b", "c", "d"}));
}

TEST(Tokenizer, BytesThatAreNoUtf8Separate) {
  EXPECT_EQ(Tokenize("a\xff\xfe"
                     "b\xC3"),
            (Tokens{"a", "b"}));
  EXPECT_EQ(Tokenize("a\xC0\xAF"
                     "b\xED\xA0\x80"
                     "c\xF5\x80\x80\x80"
                     "d"),
            (Tokens{"a", "b", "c", "d"}));
}

TEST(Tokenizer, AnyBytesGiveValidTokens) {
  const RandomSite random{.seed = 3};
  std::string bytes;
  for (uint64_t i = 0; i < 200000; ++i) bytes.push_back(static_cast<char>(random.Bits(i)));
  const Tokens tokens = Tokenize(bytes);
  EXPECT_GT(tokens.size(), 1000u);
  for (const std::string& token : tokens) {
    ASSERT_FALSE(token.empty());
    ASSERT_FALSE(FirstInvalidUtf8(token)) << token;
    ASSERT_EQ(token.find_first_of(" \n\r\t"), std::string::npos);
  }
}

TEST(Utf8, DecodesWhatItEncodes) {
  for (const char32_t code : {U'\0', U'a', U'\x7f', U'\x80', U'\x7ff', U'\x800', U'\xd7ff',
                              U'\xe000', U'\xffff', U'\x10000', U'\x10ffff'}) {
    std::string text;
    AppendUtf8(text, code);
    const auto decoded = DecodeUtf8(text, 0);
    ASSERT_TRUE(decoded);
    EXPECT_EQ(decoded->code, code);
    EXPECT_EQ(decoded->size, text.size());
    EXPECT_FALSE(FirstInvalidUtf8(text));
    for (size_t cut = 1; cut < text.size(); ++cut) {
      EXPECT_TRUE(FirstInvalidUtf8(text.substr(0, cut)));
    }
  }
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(FirstInvalidUtf8("ab\x80"), 2u);
  EXPECT_EQ(FirstInvalidUtf8("\xC1\x81"), 0u);          // overlong
  EXPECT_EQ(FirstInvalidUtf8("\xE0\x80\x80"), 0u);      // overlong
  EXPECT_EQ(FirstInvalidUtf8("\xED\xBF\xBF"), 0u);      // surrogate
  EXPECT_EQ(FirstInvalidUtf8("\xF4\x90\x80\x80"), 0u);  // beyond U+10FFFF
}

}  // namespace
}  // namespace turbolstm
