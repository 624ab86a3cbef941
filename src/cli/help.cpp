#include "cli/help.h"

#include <fmt/format.h>

#include "train/config.h"

namespace turbolstm::cli {
namespace {

constexpr size_t kLineWidth = 96;

// Breaks at blanks; every line after an indent.
std::string Wrapped(std::string_view text, std::string_view indent) {
  std::string result(indent);
  size_t column = indent.size();
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (column > indent.size() && column + 1 + word.size() > kLineWidth) {
      result += fmt::format("\n{}", indent);
      column = indent.size();
    } else if (column > indent.size()) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result + "\n";
}

}  // namespace

std::string ConfigKeysHelp() {
  std::string text =
      "Config keys (in the file under [section]; on the command line section.key=value):\n";
  for (const ConfigKeyHelp& key : ConfigKeys()) {
    text += fmt::format("  {} = {}\n", key.name, key.default_value);
    text += Wrapped(fmt::format("{}; {}", key.help, key.wanted), "      ");
  }
  return text;
}

}  // namespace turbolstm::cli
