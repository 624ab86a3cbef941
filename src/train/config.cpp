#include "train/config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/read_file.h"
#include "train/config_keys.h"

namespace turbolstm {
namespace {

// Longer names are cut before they are compared and printed: a hostile file may hold megabytes.
constexpr size_t kLongestShown = 80;

std::string_view Shown(std::string_view text) {
  return text.substr(0, kLongestShown);
}

std::string At(std::string_view source, const toml::source_position& position) {
  return fmt::format("{}:{}:{}", source, position.line, position.column);
}

std::string Describe(const toml::node& node) {
  if (const auto* text = node.as_string()) return fmt::format("text \"{}\"", Shown(text->get()));
  if (const auto* integer = node.as_integer()) return fmt::format("{}", integer->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (node.is_table()) return "a table";
  if (node.is_array()) return "an array";
  return "a date or time";
}

// Stores a value in its field; false when its type or range is wrong.
struct Assign {
  const toml::node& node;

  bool operator()(std::string* field, const TextRange& range) const {
    const auto text = node.value_exact<std::string>();
    if (!text) return false;
    const auto& choices = range.choices;
    if (!choices.empty() && std::find(choices.begin(), choices.end(), *text) == choices.end()) {
      return false;
    }
    *field = *text;
    return true;
  }
  bool operator()(int64_t* field, const IntegerRange& range) const {
    const auto integer = node.value_exact<int64_t>();
    if (!integer || *integer < range.least || *integer > range.most) return false;
    *field = *integer;
    return true;
  }
  bool operator()(double* field, const NumberRange& range) const {
    if (!node.is_number()) return false;
    const double number = node.is_integer() ? static_cast<double>(node.as_integer()->get())
                                            : node.as_floating_point()->get();
    if (!(number >= range.least && number <= range.most)) return false;  // also refuses NaN
    *field = number;
    return true;
  }
  bool operator()(bool* field, const FlagRange&) const {
    const auto flag = node.value_exact<bool>();
    if (!flag) return false;
    *field = *flag;
    return true;
  }
  // The table pairs each field with the range of its own type.
  template <typename Field, typename Range>
  bool operator()(Field*, const Range&) const {
    return false;
  }
};

void SetKey(Config& config, std::string_view section, std::string_view name, const toml::node& node,
            std::string_view place) {
  const ConfigKey* const key = FindConfigKey(section, name);
  TL_CHECK(key != nullptr, "[config] {}: unknown key '{}.{}', did you mean '{}'?", place,
           Shown(section), Shown(name), NearestConfigKey(section, Shown(name)));
  TL_CHECK(std::visit(Assign{node}, key->field(config), key->range),
           "[config] {}: '{}.{}' is {}, wants {}", place, section, name, Describe(node),
           Wanted(key->range));
}

void ApplySection(Config& config, std::string_view section, const toml::node& node,
                  std::string_view source) {
  const std::string place = At(source, node.source().begin);
  const std::string_view nearest = NearestConfigSection(Shown(section));
  TL_CHECK(nearest == section, "[config] {}: unknown {} '{}', did you mean section '{}'?", place,
           node.is_table() ? "section" : "key", Shown(section), nearest);
  const toml::table* const table = node.as_table();
  TL_CHECK(table != nullptr, "[config] {}: '{}' is {}, wants a section", place, section,
           Describe(node));
  for (const auto& [name, value] : *table) {
    SetKey(config, section, name.str(), value, At(source, name.source().begin));
  }
}

toml::table ParseToml(std::string_view text, std::string_view source) {
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    Fail("[config] {}: not valid TOML: {}", At(source, error.source().begin),
         Shown(error.description()));
  }
}

// On the command line text may stand without quotes, so that the shell need not see them.
toml::table ParseOverrideValue(std::string_view value, const ConfigKey* key,
                               std::string_view place) {
  const bool is_text = key != nullptr && std::holds_alternative<TextRange>(key->range);
  const bool quoted = !value.empty() && (value.front() == '"' || value.front() == '\'');
  if (is_text && !quoted) return toml::table{{"value", std::string(value)}};
  toml::table table;
  try {
    table = toml::parse(fmt::format("value = {}", value));
  } catch (const toml::parse_error&) {
    return toml::table{{"value", std::string(value)}};  // refused later, as text
  }
  TL_CHECK(table.size() == 1, "[config] {}: has {} values, wants one", place, table.size());
  return table;
}

void ApplyOverride(Config& config, std::string_view text) {
  const std::string place = fmt::format("override '{}'", Shown(text));
  const size_t equals = text.find('=');
  const size_t dot = text.substr(0, equals).find('.');
  TL_CHECK(equals != std::string_view::npos && dot != std::string_view::npos,
           "[config] {}: wants section.key=value", place);
  const std::string_view section = text.substr(0, dot);
  const std::string_view name = text.substr(dot + 1, equals - dot - 1);
  const toml::table value =
      ParseOverrideValue(text.substr(equals + 1), FindConfigKey(section, name), place);
  SetKey(config, section, name, *value.get("value"), place);
}

struct FormatValue {
  std::string operator()(const std::string* text) const {
    std::ostringstream quoted;
    quoted << toml::value<std::string>(*text);
    return quoted.str();
  }
  std::string operator()(const int64_t* integer) const { return fmt::format("{}", *integer); }
  std::string operator()(const double* number) const { return fmt::format("{}", *number); }
  std::string operator()(const bool* flag) const { return *flag ? "true" : "false"; }
};

std::string ValueText(const ConfigKey& key, Config& config) {
  return std::visit(FormatValue{}, key.field(config));
}

}  // namespace

std::vector<ConfigKeyHelp> ConfigKeys() {
  Config defaults;
  std::vector<ConfigKeyHelp> keys;
  for (const ConfigKey& key : ConfigTable()) {
    keys.push_back({.name = fmt::format("{}.{}", key.section, key.name),
                    .default_value = ValueText(key, defaults),
                    .wanted = Wanted(key.range),
                    .help = std::string(key.help)});
  }
  return keys;
}

Config ParseConfig(std::string_view toml, std::string_view source,
                   std::span<const std::string> overrides) {
  Config config;
  const toml::table document = ParseToml(toml, source);
  for (const auto& [section, node] : document) ApplySection(config, section.str(), node, source);
  for (const std::string& override_text : overrides) ApplyOverride(config, override_text);
  return config;
}

Config LoadConfig(const std::filesystem::path& path, std::span<const std::string> overrides) {
  return ParseConfig(ReadFile(path), path.string(), overrides);
}

std::string FormatConfig(const Config& config) {
  Config copy = config;  // fields are reached for writing
  std::string text;
  std::string_view section;
  for (const ConfigKey& key : ConfigTable()) {
    if (key.section != section) {
      section = key.section;
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    }
    text += fmt::format("{} = {}\n", key.name, ValueText(key, copy));
  }
  return text;
}

}  // namespace turbolstm
