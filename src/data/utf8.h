#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace turbolstm {

// One code point and the bytes it took.
struct Utf8Char {
  char32_t code = 0;
  size_t size = 0;
};

// The code point that starts at text[position] (position < text.size()); nothing when the bytes are
// no UTF-8 (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF).
std::optional<Utf8Char> DecodeUtf8(std::string_view text, size_t position);

void AppendUtf8(std::string& text, char32_t code);

// Where the first byte that is no UTF-8 lies; nothing when the text is valid.
std::optional<size_t> FirstInvalidUtf8(std::string_view text);

}  // namespace turbolstm
