#include "data/utf8.h"

namespace turbolstm {
namespace {

struct Lead {
  size_t size;
  char32_t bits;
  char32_t least;  // smaller values have a shorter form
};

std::optional<Lead> DecodeLead(unsigned char byte) {
  if (byte < 0x80) return Lead{1, byte, 0};
  if (byte >= 0xC2 && byte < 0xE0) return Lead{2, byte & 0x1Fu, 0x80};
  if (byte >= 0xE0 && byte < 0xF0) return Lead{3, byte & 0x0Fu, 0x800};
  if (byte >= 0xF0 && byte < 0xF5) return Lead{4, byte & 0x07u, 0x10000};
  return std::nullopt;
}

}  // namespace

std::optional<Utf8Char> DecodeUtf8(std::string_view text, size_t position) {
  const auto lead = DecodeLead(static_cast<unsigned char>(text[position]));
  if (!lead || lead->size > text.size() - position) return std::nullopt;
  char32_t code = lead->bits;
  for (size_t i = 1; i < lead->size; ++i) {
    const auto byte = static_cast<unsigned char>(text[position + i]);
    if ((byte & 0xC0) != 0x80) return std::nullopt;
    code = (code << 6) | (byte & 0x3Fu);
  }
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  if (code < lead->least || code > 0x10FFFF || surrogate) return std::nullopt;
  return Utf8Char{code, lead->size};
}

void AppendUtf8(std::string& text, char32_t code) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto put_tail = [&](int shift) { put(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put_tail(0);
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put_tail(6);
    put_tail(0);
  } else {
    put(0xF0 | (code >> 18));
    put_tail(12);
    put_tail(6);
    put_tail(0);
  }
}

std::optional<size_t> FirstInvalidUtf8(std::string_view text) {
  for (size_t position = 0; position < text.size();) {
    const auto decoded = DecodeUtf8(text, position);
    if (!decoded) return position;
    position += decoded->size;
  }
  return std::nullopt;
}

}  // namespace turbolstm
