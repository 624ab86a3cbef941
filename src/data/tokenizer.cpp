#include "data/tokenizer.h"

#include "data/utf8.h"

namespace turbolstm {
namespace {

enum class Kind { kSpace, kWord, kPunctuation, kApostrophe };

constexpr size_t kLongestPunctuation = 3;

bool IsBetween(char32_t code, char32_t first, char32_t last) {
  return code >= first && code <= last;
}

Kind AsciiKind(char32_t code) {
  if (IsBetween(code, 'a', 'z') || IsBetween(code, 'A', 'Z') || IsBetween(code, '0', '9')) {
    return Kind::kWord;
  }
  if (code == '\'') return Kind::kApostrophe;
  return code <= ' ' || code == 0x7F ? Kind::kSpace : Kind::kPunctuation;
}

Kind KindOf(char32_t code) {
  if (code < 0x80) return AsciiKind(code);
  // Acute accent and typographic quotes stand for the apostrophe in many reviews.
  if (code == 0xB4 || code == 0x2018 || code == 0x2019) return Kind::kApostrophe;
  if (code <= 0xA0 || IsBetween(code, 0x2000, 0x200F) || IsBetween(code, 0x2028, 0x202F) ||
      code == 0x205F || code == 0x3000 || code == 0xFEFF || code == 0xFFFD ||
      IsBetween(code, 0xE000, 0xF8FF)) {
    return Kind::kSpace;
  }
  const bool latin_letter = code == 0xAA || code == 0xB5 || code == 0xBA;
  if ((code < 0xC0 && !latin_letter) || code == 0xD7 || code == 0xF7 ||
      IsBetween(code, 0x2010, 0x205E) || IsBetween(code, 0x3001, 0x3003)) {
    return Kind::kPunctuation;
  }
  return Kind::kWord;
}

// Latin-1, Greek and Cyrillic; independent of the locale. Other scripts stay as they are.
char32_t LowerCase(char32_t code) {
  if (IsBetween(code, 'A', 'Z')) return code + 32;
  if (IsBetween(code, 0xC0, 0xDE) && code != 0xD7) return code + 32;
  if (IsBetween(code, 0x391, 0x3A9)) return code + 32;
  if (IsBetween(code, 0x410, 0x42F)) return code + 32;
  if (IsBetween(code, 0x400, 0x40F)) return code + 80;
  return code;
}

// Bytes that are no UTF-8 read as a blank each.
Utf8Char CharAt(std::string_view text, size_t position) {
  return DecodeUtf8(text, position).value_or(Utf8Char{' ', 1});
}

// Length of a line-break tag at the start of the text, 0 when there is none.
size_t LineBreakTag(std::string_view text) {
  const auto is = [&](size_t i, char lower, char upper) {
    return i < text.size() && (text[i] == lower || text[i] == upper);
  };
  if (!is(0, '<', '<') || !is(1, 'b', 'B') || !is(2, 'r', 'R')) return 0;
  size_t end = 3;
  while (is(end, ' ', '/')) ++end;
  return is(end, '>', '>') ? end + 1 : 0;
}

}  // namespace

bool Tokenizer::Next(std::string& token) {
  token.clear();
  while (position_ < text_.size()) {
    if (const size_t tag = LineBreakTag(text_.substr(position_)); tag > 0) {
      position_ += tag;
      continue;
    }
    const Utf8Char next = CharAt(text_, position_);
    switch (KindOf(next.code)) {
      case Kind::kWord:
        ReadWord(token);
        return true;
      case Kind::kPunctuation:
        ReadPunctuation(token);
        return true;
      case Kind::kSpace:
      case Kind::kApostrophe:
        position_ += next.size;
    }
  }
  return false;
}

void Tokenizer::ReadWord(std::string& token) {
  while (position_ < text_.size()) {
    const Utf8Char next = CharAt(text_, position_);
    const Kind kind = KindOf(next.code);
    const size_t behind = position_ + next.size;
    const bool inside = kind == Kind::kApostrophe && behind < text_.size() &&
                        KindOf(CharAt(text_, behind).code) == Kind::kWord;
    if (kind != Kind::kWord && !inside) return;
    AppendUtf8(token, inside ? U'\'' : LowerCase(next.code));
    position_ = behind;
  }
}

void Tokenizer::ReadPunctuation(std::string& token) {
  const Utf8Char first = CharAt(text_, position_);
  size_t count = 0;
  while (position_ < text_.size() && CharAt(text_, position_).code == first.code) {
    if (count > 0 && LineBreakTag(text_.substr(position_)) > 0) return;
    if (count++ < kLongestPunctuation) AppendUtf8(token, first.code);
    position_ += first.size;
  }
}

std::vector<std::string> Tokenize(std::string_view text) {
  std::vector<std::string> tokens;
  std::string token;
  for (Tokenizer tokenizer(text); tokenizer.Next(token);) tokens.push_back(token);
  return tokens;
}

}  // namespace turbolstm
