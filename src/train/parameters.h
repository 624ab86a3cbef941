#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cells/parameter_spec.h"
#include "io/safetensors.h"
#include "plan/execution.h"

namespace turbolstm {

// The fp32 weights of a model, in the order of its parameters. Each stays where it is.
class Parameters {
 public:
  // Drawn from the seed.
  Parameters(std::vector<ParameterSpec> specs, uint64_t seed);
  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  const std::vector<ParameterSpec>& specs() const { return specs_; }
  std::span<float> values(size_t i) { return values_[i]; }
  std::span<const float> values(size_t i) const { return values_[i]; }
  // Throws Error when there is none of that name.
  std::span<const float> Named(std::string_view name) const;
  int64_t elements() const;  // of all together

  void BindTo(Execution* execution) const;

  // Under PyTorch's names.
  std::vector<NamedTensor> Tensors() const;
  // Takes over every parameter. Throws Error naming source (a file) and the tensor that is missing
  // or has another type or shape than the model.
  void Load(const SafetensorsFile& file, std::string_view source);

 private:
  std::vector<ParameterSpec> specs_;
  std::vector<std::vector<float>> values_;
};

// float32, from the values of one parameter.
NamedTensor MakeTensor(std::string name, std::vector<int64_t> shape, std::span<const float> values);
// Copies a tensor that must be float32 of this shape; `source` stands for the file in errors.
void ReadTensor(const SafetensorsFile& file, std::string_view source, const std::string& name,
                const std::vector<int64_t>& shape, std::span<float> values);

}  // namespace turbolstm
