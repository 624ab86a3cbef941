#include "train/parameters.h"

#include <cstring>

#include "base/error.h"

namespace turbolstm {

Parameters::Parameters(std::vector<ParameterSpec> specs, uint64_t seed) : specs_(std::move(specs)) {
  for (const ParameterSpec& spec : specs_) values_.push_back(DrawParameter(spec, seed));
}

int64_t Parameters::elements() const {
  int64_t sum = 0;
  for (const std::vector<float>& values : values_) sum += std::ssize(values);
  return sum;
}

std::span<const float> Parameters::Named(std::string_view name) const {
  for (size_t i = 0; i < specs_.size(); ++i) {
    if (specs_[i].name == name) return values_[i];
  }
  Fail("[parameters] there is no '{}'", name);
}

void Parameters::BindTo(Execution* execution) const {
  for (size_t i = 0; i < specs_.size(); ++i) execution->Bind(specs_[i].name, values_[i]);
}

std::vector<NamedTensor> Parameters::Tensors() const {
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < specs_.size(); ++i) {
    tensors.push_back(MakeTensor(specs_[i].name, specs_[i].shape, values_[i]));
  }
  return tensors;
}

void Parameters::Load(const SafetensorsFile& file, std::string_view source) {
  for (size_t i = 0; i < specs_.size(); ++i) {
    ReadTensor(file, source, specs_[i].name, specs_[i].shape, values_[i]);
  }
}

NamedTensor MakeTensor(std::string name, std::vector<int64_t> shape,
                       std::span<const float> values) {
  NamedTensor tensor{std::move(name), DType::kFloat32, std::move(shape), {}};
  const auto bytes = std::as_bytes(values);
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

void ReadTensor(const SafetensorsFile& file, std::string_view source, const std::string& name,
                const std::vector<int64_t>& shape, std::span<float> values) {
  const NamedTensor* const tensor = file.Find(name);
  TL_CHECK(tensor != nullptr, "[checkpoint] {}: '{}' is missing, wants float32 [{}]", source, name,
           fmt::join(shape, ", "));
  TL_CHECK(tensor->dtype == DType::kFloat32 && tensor->shape == shape,
           "[checkpoint] {}: '{}' is {} [{}], the model wants float32 [{}]", source, name,
           Name(tensor->dtype), fmt::join(tensor->shape, ", "), fmt::join(shape, ", "));
  if (!values.empty()) std::memcpy(values.data(), tensor->bytes.data(), values.size_bytes());
}

}  // namespace turbolstm
