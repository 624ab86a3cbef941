// Safetensors files as numpy arrays. What people call is python/turbolstm/weights.py.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include <bit>
#include <cstring>

#include "arrays.h"
#include "base/error.h"
#include "bind.h"
#include "io/safetensors.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace turbolstm {
namespace {

using Input = nb::ndarray<nb::ro>;

nb::dlpack::dtype TypeOf(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const auto make = [](Code code, int bits) {
    return nb::dlpack::dtype{static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
  };
  switch (dtype) {
    case DType::kFloat32:
    case DType::kBFloat16:  // widened, since numpy has no such type
      return make(Code::Float, 32);
    case DType::kFloat64:
      return make(Code::Float, 64);
    case DType::kFloat16:
      return make(Code::Float, 16);
    case DType::kInt32:
      return make(Code::Int, 32);
    case DType::kInt64:
      return make(Code::Int, 64);
  }
  Fail("[safetensors] unknown element type {}", static_cast<int>(dtype));
}

std::vector<std::byte> Widened(const std::vector<std::byte>& halves) {
  std::vector<std::byte> wide(2 * halves.size());
  for (size_t i = 0; i + 1 < halves.size(); i += 2) {
    std::memcpy(&wide[2 * i + 2], &halves[i], 2);  // the upper half of a little-endian float
  }
  return wide;
}

nb::object ArrayOf(NamedTensor tensor) {
  static_assert(std::endian::native == std::endian::little);
  if (tensor.dtype == DType::kBFloat16) tensor.bytes = Widened(tensor.bytes);
  auto* bytes = new std::vector<std::byte>(std::move(tensor.bytes));
  const nb::capsule owner(bytes,
                          [](void* p) noexcept { delete static_cast<std::vector<std::byte>*>(p); });
  const std::vector<size_t> shape(tensor.shape.begin(), tensor.shape.end());
  return nb::cast(nb::ndarray<nb::numpy>(bytes->data(), shape.size(), shape.data(), owner, nullptr,
                                         TypeOf(tensor.dtype)));
}

nb::dict Read(const std::filesystem::path& path) {
  SafetensorsFile file;
  {
    const nb::gil_scoped_release release;
    file = ReadSafetensors(path);
  }
  nb::dict arrays;
  for (NamedTensor& tensor : file.tensors) {
    const std::string name = tensor.name;
    arrays[name.c_str()] = ArrayOf(std::move(tensor));
  }
  return arrays;
}

DType DTypeOf(const std::string& name, const Input& array) {
  for (const DType dtype :
       {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kInt32, DType::kInt64}) {
    if (array.dtype() == TypeOf(dtype)) return dtype;
  }
  Fail("[safetensors] '{}' is a {}, wants float32, float64, float16, int32 or int64", name,
       Describe(array));
}

void Write(const std::filesystem::path& path, const std::map<std::string, Input>& arrays,
           const std::map<std::string, std::string>& metadata) {
  SafetensorsFile file;
  file.metadata = metadata;
  for (const auto& [name, array] : arrays) {
    TL_CHECK(IsContiguous(array), "[safetensors] '{}' is not contiguous", name);
    NamedTensor tensor{name, DTypeOf(name, array), {}, {}};
    for (size_t i = 0; i < array.ndim(); ++i) {
      tensor.shape.push_back(static_cast<int64_t>(array.shape(i)));
    }
    const auto* const data = static_cast<const std::byte*>(array.data());
    tensor.bytes.assign(data, data + array.nbytes());
    file.tensors.push_back(std::move(tensor));
  }
  const nb::gil_scoped_release release;
  WriteSafetensors(path, file);
}

}  // namespace

void BindWeights(nb::module_& module) {
  module.def("read_safetensors", &Read, "path"_a, "turbolstm.weights.load calls this.");
  module.def(
      "safetensors_metadata",
      [](const std::filesystem::path& path) {
        const nb::gil_scoped_release release;
        return ReadSafetensors(path).metadata;
      },
      "path"_a, "turbolstm.weights.metadata calls this.");
  module.def("write_safetensors", &Write, "path"_a, "arrays"_a, "metadata"_a,
             "turbolstm.weights.save calls this.");
}

}  // namespace turbolstm
