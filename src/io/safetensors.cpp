#include "io/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/safetensors_header.h"

namespace turbolstm {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr uint64_t kLengthBytes = 8;

// The length of the header from the file's first 8 bytes, checked against the file's size.
uint64_t CheckHeaderLength(uint64_t length, uint64_t file_size, std::string_view source) {
  TL_CHECK(length <= kLargestSafetensorsHeader,
           "[safetensors] {}: the header has {} bytes, wants at most {}", source, length,
           kLargestSafetensorsHeader);
  TL_CHECK(length <= file_size - kLengthBytes,
           "[safetensors] {}: the header has {} bytes, the file holds {} behind its length: "
           "truncated?",
           source, length, file_size - kLengthBytes);
  return length;
}

// Copies bytes [offset, offset + destination.size()) of the whole file.
template <typename CopyBytes>
SafetensorsFile Assemble(uint64_t file_size, std::string_view source, CopyBytes copy) {
  TL_CHECK(file_size >= kLengthBytes, "[safetensors] {}: has {} bytes, wants at least {}", source,
           file_size, kLengthBytes);
  uint64_t length = 0;
  copy(0, std::as_writable_bytes(std::span(&length, 1)));
  CheckHeaderLength(length, file_size, source);
  std::string json(length, '\0');
  copy(kLengthBytes, std::as_writable_bytes(std::span(json)));

  const uint64_t data_start = kLengthBytes + length;
  SafetensorsHeader header = ParseSafetensorsHeader(json, file_size - data_start, source);
  SafetensorsFile file{.tensors = {}, .metadata = std::move(header.metadata)};
  file.tensors.reserve(header.entries.size());
  for (SafetensorsEntry& entry : header.entries) {
    NamedTensor& tensor = file.tensors.emplace_back();
    tensor.name = std::move(entry.name);
    tensor.dtype = entry.dtype;
    tensor.shape = std::move(entry.shape);
    tensor.bytes.resize(entry.end - entry.begin);
    copy(data_start + entry.begin, std::span(tensor.bytes));
  }
  return file;
}

std::vector<const NamedTensor*> StorageOrder(const SafetensorsFile& file) {
  std::vector<const NamedTensor*> order;
  order.reserve(file.tensors.size());
  for (const NamedTensor& tensor : file.tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    return SizeOf(a->dtype) > SizeOf(b->dtype);
  });
  return order;
}

void CheckForWriting(const SafetensorsFile& file, const std::string& path) {
  std::set<std::string_view> names = {"__metadata__"};
  for (const NamedTensor& tensor : file.tensors) {
    TL_CHECK(names.insert(tensor.name).second,
             "[safetensors] {}: tensor name '{}' is taken or reserved", path, tensor.name);
    const uint64_t wanted = SafetensorsByteSize(tensor.dtype, tensor.shape, path, tensor.name);
    TL_CHECK(tensor.bytes.size() == wanted,
             "[safetensors] {}: tensor '{}' has {} bytes, its shape [{}] of {} wants {}", path,
             tensor.name, tensor.bytes.size(), fmt::join(tensor.shape, ", "), Name(tensor.dtype),
             wanted);
  }
}

std::string HeaderText(const SafetensorsFile& file, const std::vector<const NamedTensor*>& order,
                       const std::string& path) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  uint64_t position = 0;
  for (const NamedTensor* tensor : order) {
    const uint64_t end = position + tensor->bytes.size();
    // A list of pairs, not operator[]: that one searches all earlier keys of an ordered object.
    header.get_ref<nlohmann::ordered_json::object_t&>().emplace_back(
        tensor->name, nlohmann::ordered_json{{"dtype", SafetensorsName(tensor->dtype)},
                                             {"shape", tensor->shape},
                                             {"data_offsets", {position, end}}});
    position = end;
  }
  try {
    std::string text = header.dump();
    text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
    return text;
  } catch (const nlohmann::json::exception& reason) {
    Fail("[safetensors] {}: a name or metadata is not valid UTF-8: {}", path, reason.what());
  }
}

}  // namespace

const NamedTensor* SafetensorsFile::Find(std::string_view name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const NamedTensor& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

const NamedTensor& SafetensorsFile::At(std::string_view name) const {
  const NamedTensor* const tensor = Find(name);
  TL_CHECK(tensor != nullptr, "[safetensors] has no tensor '{}' among its {}", name,
           tensors.size());
  return *tensor;
}

SafetensorsFile ReadSafetensors(const fs::path& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  TL_CHECK(fs::exists(status), "[safetensors] {}: cannot be read: {}", path.string(),
           std::error_code(ENOENT, std::generic_category()).message());
  TL_CHECK(fs::is_regular_file(status), "[safetensors] {}: cannot be read: not a regular file",
           path.string());
  std::ifstream stream(path, std::ios::binary);
  const uint64_t size = fs::file_size(path, failure);
  TL_CHECK(stream && !failure, "[safetensors] {}: cannot be read: {}", path.string(),
           std::error_code(errno, std::generic_category()).message());
  return Assemble(size, path.string(), [&](uint64_t offset, std::span<std::byte> destination) {
    stream.seekg(static_cast<std::streamoff>(offset));
    stream.read(reinterpret_cast<char*>(destination.data()),
                static_cast<std::streamsize>(destination.size()));
    TL_CHECK(stream, "[safetensors] {}: reading {} bytes at {} failed", path.string(),
             destination.size(), offset);
  });
}

SafetensorsFile ParseSafetensors(std::span<const std::byte> content, std::string_view source) {
  return Assemble(content.size(), source, [&](uint64_t offset, std::span<std::byte> destination) {
    const auto part = content.subspan(offset, destination.size());
    std::copy(part.begin(), part.end(), destination.begin());
  });
}

void WriteSafetensors(const fs::path& path, const SafetensorsFile& file) {
  CheckForWriting(file, path.string());
  const std::vector<const NamedTensor*> order = StorageOrder(file);
  const std::string header = HeaderText(file, order, path.string());
  const uint64_t length = header.size();
  TL_CHECK(length <= kLargestSafetensorsHeader,
           "[safetensors] {}: the header has {} bytes, wants at most {}", path.string(), length,
           kLargestSafetensorsHeader);
  AtomicFile output(path);
  output.Write(std::as_bytes(std::span(&length, 1)));
  output.Write(header);
  for (const NamedTensor* tensor : order) output.Write(tensor->bytes);
  output.Commit();
}

}  // namespace turbolstm
