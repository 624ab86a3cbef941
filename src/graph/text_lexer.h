#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace turbolstm {

// A piece of graph text.
struct Token {
  enum class Kind : uint8_t { kWord, kString, kNumber, kNodeNumber, kSymbol, kLineEnd, kEnd };
  Kind kind = Kind::kEnd;
  std::string text;  // of a string: without quotes and escapes; of a node number: without %
  int64_t line = 1;
  int64_t column = 1;
};

// Cuts graph text into tokens, one ahead.
class Lexer {
 public:
  // Both must outlive the lexer.
  Lexer(std::string_view text, std::string_view file);

  const Token& peek() const { return token_; }
  Token Take();
  bool Accept(std::string_view symbol_or_word);
  void Expect(std::string_view symbol);

  // Throws Error: what came at the token, what was wanted.
  [[noreturn]] void FailAt(const Token& token, std::string_view wanted) const;
  // Throws Error with this text.
  [[noreturn]] void FailWith(const Token& token, std::string_view message) const;

 private:
  void Advance();
  void Skip();
  void ReadString();
  char ReadEscape();
  std::string ReadWhile(bool (*belongs)(char));
  bool AtEnd() const { return position_ == text_.size(); }
  char Next() const { return text_[position_]; }
  void Step();

  std::string_view text_;
  std::string_view file_;
  size_t position_ = 0;
  int64_t line_ = 1;
  int64_t column_ = 1;
  Token token_;
};

// The name as it stands in graph text: in quotes where it is no plain word or has a meaning.
std::string QuotedName(std::string_view name);

}  // namespace turbolstm
