#include "io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"

namespace turbolstm {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 6> kDTypes = {{
    {"F32", DType::kFloat32},
    {"F64", DType::kFloat64},
    {"BF16", DType::kBFloat16},
    {"F16", DType::kFloat16},
    {"I32", DType::kInt32},
    {"I64", DType::kInt64},
}};

// Receives the JSON event by event: a document tree of a 100 MB header would take gigabytes, and
// would have dropped duplicate keys without a word.
class HeaderBuilder final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderBuilder(std::string_view source) : source_(source) {}

  SafetensorsHeader Take() { return std::move(header_); }

  bool null() override { Unexpected("null"); }
  bool boolean(bool) override { Unexpected("a boolean"); }
  bool number_integer(int64_t value) override { Unexpected(std::to_string(value)); }
  bool number_float(double, const std::string& text) override { Unexpected(text); }
  bool binary(binary_t&) override { Unexpected("binary data"); }

  bool number_unsigned(uint64_t value) override {
    if (place_ == Place::kShapeItems) {
      Check(value <= uint64_t{INT64_MAX}, "has dimension {}, wants at most 2^63-1", value);
      entry_.shape.push_back(static_cast<int64_t>(value));
    } else if (place_ == Place::kOffsetItems) {
      offsets_.push_back(value);
    } else {
      Unexpected(std::to_string(value));
    }
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::kMetadataValue) {
      const auto [_, is_new] = header_.metadata.emplace(key_, value);
      TL_CHECK(is_new, "[safetensors] {}: __metadata__ has key '{}' twice", source_, key_);
      place_ = Place::kMetadata;
    } else if (place_ == Place::kDType) {
      SetDType(value);
      place_ = Place::kEntry;
    } else {
      Unexpected("a string");
    }
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTopValue) {
      place_ = entry_.name == kMetadataKey ? Place::kMetadata : Place::kEntry;
      fields_.clear();
      offsets_.clear();
    } else {
      Unexpected("an object");
    }
    return true;
  }

  bool key(std::string& value) override {
    if (place_ == Place::kTop) {
      const bool is_new = names_.insert(value).second;
      TL_CHECK(is_new, "[safetensors] {}: the header has key '{}' twice", source_, value);
      entry_ = {};
      entry_.name = value;
      place_ = Place::kTopValue;
    } else if (place_ == Place::kMetadata) {
      key_ = value;
      place_ = Place::kMetadataValue;
    } else {
      StartField(value);
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kEntry) {
      FinishEntry();
    }
    place_ = place_ == Place::kTop ? Place::kEnd : Place::kTop;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::kShape) {
      place_ = Place::kShapeItems;
    } else if (place_ == Place::kOffsets) {
      place_ = Place::kOffsetItems;
    } else {
      Unexpected("an array");
    }
    return true;
  }

  bool end_array() override {
    place_ = Place::kEntry;
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::json::exception& reason) override {
    Fail("[safetensors] {}: the header is not valid JSON at byte {}: {}", source_, position,
         reason.what());
  }

 private:
  enum class Place {
    kStart,
    kTop,
    kTopValue,
    kMetadata,
    kMetadataValue,
    kEntry,
    kDType,
    kShape,
    kShapeItems,
    kOffsets,
    kOffsetItems,
    kEnd
  };
  static constexpr std::string_view kMetadataKey = "__metadata__";

  template <typename... Args>
  void Check(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (condition) return;
    Fail("[safetensors] {}: tensor '{}' {}", source_, entry_.name,
         fmt::format(format, std::forward<Args>(args)...));
  }

  std::string_view Wanted() const {
    switch (place_) {
      case Place::kStart:
        return "an object";
      case Place::kTopValue:
        return "an object with dtype, shape and data_offsets";
      case Place::kMetadataValue:
        return "a string";
      case Place::kDType:
        return "the name of a dtype";
      case Place::kShape:
        return "an array of dimensions";
      case Place::kOffsets:
        return "an array of two byte offsets";
      case Place::kShapeItems:
      case Place::kOffsetItems:
        return "an integer of at least 0";
      default:
        return "a key";
    }
  }

  [[noreturn]] void Unexpected(std::string_view came) const {
    Fail("[safetensors] {}: header entry '{}' has {}, wants {}", source_, entry_.name, came,
         Wanted());
  }

  void SetDType(std::string_view name) {
    const auto* const found = std::find_if(kDTypes.begin(), kDTypes.end(),
                                           [&](const auto& d) { return d.first == name; });
    Check(found != kDTypes.end(), "has dtype '{}', wants F32, F64, BF16, F16, I32 or I64", name);
    entry_.dtype = found->second;
  }

  void StartField(const std::string& name) {
    Check(fields_.insert(name).second, "has key '{}' twice", name);
    if (name == "dtype") {
      place_ = Place::kDType;
    } else if (name == "shape") {
      place_ = Place::kShape;
    } else if (name == "data_offsets") {
      place_ = Place::kOffsets;
    } else {
      Check(false, "has key '{}', wants dtype, shape and data_offsets", name);
    }
  }

  void FinishEntry() {
    for (const char* const field : {"dtype", "shape", "data_offsets"}) {
      Check(fields_.contains(field), "lacks '{}'", field);
    }
    Check(offsets_.size() == 2, "has {} data_offsets, wants 2", offsets_.size());
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    header_.entries.push_back(entry_);
  }

  std::string_view source_;
  SafetensorsHeader header_;
  Place place_ = Place::kStart;
  std::set<std::string> names_;
  SafetensorsEntry entry_;
  std::set<std::string> fields_;
  std::vector<uint64_t> offsets_;
  std::string key_;
};

void CheckEntries(const SafetensorsHeader& header, uint64_t data_size, std::string_view source) {
  uint64_t position = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    TL_CHECK(entry.begin <= entry.end && entry.end <= data_size,
             "[safetensors] {}: tensor '{}' has bytes [{}, {}), the file holds {}", source,
             entry.name, entry.begin, entry.end, data_size);
    TL_CHECK(entry.begin == position,
             "[safetensors] {}: tensor '{}' begins at byte {}, wants {} ({})", source, entry.name,
             entry.begin, position, entry.begin < position ? "overlap" : "hole");
    const uint64_t wanted = SafetensorsByteSize(entry.dtype, entry.shape, source, entry.name);
    TL_CHECK(entry.end - entry.begin == wanted,
             "[safetensors] {}: tensor '{}' has {} bytes, its shape [{}] of {} wants {}", source,
             entry.name, entry.end - entry.begin, fmt::join(entry.shape, ", "),
             SafetensorsName(entry.dtype), wanted);
    position = entry.end;
  }
  TL_CHECK(position == data_size, "[safetensors] {}: has {} bytes of data, its tensors want {}",
           source, data_size, position);
}

}  // namespace

SafetensorsHeader ParseSafetensorsHeader(std::string_view json, uint64_t data_size,
                                         std::string_view source) {
  TL_CHECK(!json.empty() && json.front() == '{',
           "[safetensors] {}: the header does not begin with '{{'", source);
  HeaderBuilder builder(source);
  nlohmann::json::sax_parse(json.begin(), json.end(), &builder);
  SafetensorsHeader header = builder.Take();
  // Empty tensors share their offset with a neighbour and must come before it.
  std::stable_sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  CheckEntries(header, data_size, source);
  return header;
}

uint64_t SafetensorsByteSize(DType dtype, const std::vector<int64_t>& shape,
                             std::string_view source, std::string_view tensor) {
  uint64_t bytes = SizeOf(dtype);
  for (const int64_t dimension : shape) {
    TL_CHECK(dimension >= 0, "[safetensors] {}: tensor '{}' has dimension {}, wants at least 0",
             source, tensor, dimension);
    TL_CHECK(!__builtin_mul_overflow(bytes, static_cast<uint64_t>(dimension), &bytes),
             "[safetensors] {}: tensor '{}' has shape [{}], its size exceeds 64 bits", source,
             tensor, fmt::join(shape, ", "));
  }
  return bytes;
}

std::string_view SafetensorsName(DType dtype) {
  for (const auto& [name, value] : kDTypes) {
    if (value == dtype) return name;
  }
  Fail("[safetensors] {} has no name in the format", Name(dtype));
}

}  // namespace turbolstm
