#include "graph/text_lexer.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace turbolstm {
namespace {

constexpr std::array<std::string_view, 4> kStatementWords = {"input", "index", "parameter",
                                                             "output"};
constexpr size_t kLongestQuote = 40;  // of text in an error

// The C library's versions depend on the locale.
bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}
bool StartsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool InWord(char c) {
  return StartsWord(c) || IsDigit(c) || c == '.';
}
bool StartsNumber(char c) {
  return IsDigit(c) || c == '-';
}
bool InNumber(char c) {
  return InWord(c) || c == '-' || c == '+';
}
bool IsControl(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      escaped += {'\\', c};
    } else if (IsControl(c)) {
      escaped += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string Shown(const Token& token) {
  if (token.kind == Token::Kind::kEnd) return "the end of the text";
  if (token.kind == Token::Kind::kLineEnd) return "the end of the line";
  const char* mark = token.kind == Token::Kind::kNodeNumber ? "%" : "";
  const char* cut = token.text.size() > kLongestQuote ? "..." : "";
  return fmt::format("'{}{}{}'", mark, Escaped(token.text.substr(0, kLongestQuote)), cut);
}

int HexDigit(char c) {
  if (IsDigit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Lexer::Lexer(std::string_view text, std::string_view file) : text_(text), file_(file) {
  Advance();
}

Token Lexer::Take() {
  Token token = std::move(token_);
  Advance();
  return token;
}

bool Lexer::Accept(std::string_view symbol_or_word) {
  const bool fits = (token_.kind == Token::Kind::kSymbol || token_.kind == Token::Kind::kWord) &&
                    token_.text == symbol_or_word;
  if (fits) Advance();
  return fits;
}

void Lexer::Expect(std::string_view symbol) {
  if (!Accept(symbol)) FailAt(token_, fmt::format("'{}'", symbol));
}

void Lexer::FailAt(const Token& token, std::string_view wanted) const {
  FailWith(token, fmt::format("got {}, wants {}", Shown(token), wanted));
}

void Lexer::FailWith(const Token& token, std::string_view message) const {
  Fail("[{}] line {}, column {}: {}", file_, token.line, token.column, message);
}

void Lexer::Step() {
  if (Next() == '\n') {
    ++line_;
    column_ = 1;
  } else {
    ++column_;
  }
  ++position_;
}

void Lexer::Skip() {
  while (!AtEnd() && (Next() == ' ' || Next() == '\t' || Next() == '\r')) Step();
  if (AtEnd() || Next() != '#') return;
  while (!AtEnd() && Next() != '\n') Step();
}

std::string Lexer::ReadWhile(bool (*belongs)(char)) {
  const size_t begin = position_;
  while (!AtEnd() && belongs(Next())) Step();
  return std::string(text_.substr(begin, position_ - begin));
}

void Lexer::Advance() {
  Skip();
  token_ = {Token::Kind::kEnd, "", line_, column_};
  if (AtEnd()) return;
  const char first = Next();
  if (first == '\n') {
    token_.kind = Token::Kind::kLineEnd;
    Step();
  } else if (first == '"') {
    ReadString();
  } else if (first == '%') {
    Step();
    token_.kind = Token::Kind::kNodeNumber;
    token_.text = ReadWhile(IsDigit);
  } else if (StartsWord(first)) {
    token_.kind = Token::Kind::kWord;
    token_.text = ReadWhile(InWord);
  } else if (StartsNumber(first)) {
    token_.kind = Token::Kind::kNumber;
    token_.text = ReadWhile(InNumber);
  } else {
    token_.kind = Token::Kind::kSymbol;
    token_.text = first;
    Step();
  }
}

void Lexer::ReadString() {
  token_.kind = Token::Kind::kString;
  Step();
  while (!AtEnd() && Next() != '"' && !IsControl(Next())) {
    token_.text += Next() == '\\' ? ReadEscape() : Next();
    Step();
  }
  if (AtEnd() || Next() != '"') FailWith(token_, "a name has no closing '\"' on its line");
  Step();
}

// Leaves the last character of the escape to be stepped over.
char Lexer::ReadEscape() {
  Step();
  if (!AtEnd() && (Next() == '"' || Next() == '\\')) return Next();
  const bool has_digits = text_.size() - position_ >= 3 && Next() == 'x';
  const int high = has_digits ? HexDigit(text_[position_ + 1]) : -1;
  const int low = has_digits ? HexDigit(text_[position_ + 2]) : -1;
  if (high < 0 || low < 0) {
    FailWith({Token::Kind::kSymbol, "", line_, column_},
             "got an unknown escape, wants '\"', '\\' or x and two hexadecimal digits after '\\'");
  }
  Step();
  Step();
  return static_cast<char>(high * 16 + low);
}

std::string QuotedName(std::string_view name) {
  const bool plain =
      !name.empty() && StartsWord(name.front()) && std::all_of(name.begin(), name.end(), InWord) &&
      std::find(kStatementWords.begin(), kStatementWords.end(), name) == kStatementWords.end();
  return plain ? std::string(name) : fmt::format("\"{}\"", Escaped(name));
}

}  // namespace turbolstm
