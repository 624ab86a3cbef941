#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "train/config.h"

namespace turbolstm {

// The values a key may take; the alternative tells the type of the field.
struct TextRange {
  std::vector<std::string_view> choices;  // empty: any text
};
struct IntegerRange {
  int64_t least;
  int64_t most;
};
struct NumberRange {
  double least;
  double most;
};
struct FlagRange {};

using ConfigRange = std::variant<TextRange, IntegerRange, NumberRange, FlagRange>;
using ConfigField = std::variant<std::string*, int64_t*, double*, bool*>;

struct ConfigKey {
  std::string_view section;
  std::string_view name;
  ConfigField (*field)(Config&);
  ConfigRange range;
  std::string_view help;
};

// Every key once, sections together, in the order in which they are printed.
const std::vector<ConfigKey>& ConfigTable();

// "an integer from 1 to 10", "one of lstm, gru".
std::string Wanted(const ConfigRange& range);

// Null when there is no such key.
const ConfigKey* FindConfigKey(std::string_view section, std::string_view name);

// "section.key" of the key that is spelt most alike.
std::string NearestConfigKey(std::string_view section, std::string_view name);
std::string_view NearestConfigSection(std::string_view section);

}  // namespace turbolstm
