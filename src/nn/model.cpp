#include "nn/model.h"

#include <algorithm>

namespace turbolstm {

Value Model::Parameter(std::string name, std::vector<int64_t> shape, Initializer init) {
  Note({{name, shape, init, {}}});
  return builder_.Parameter(std::move(name), std::move(shape));
}

void Model::Note(const std::vector<ParameterSpec>& specs) {
  for (const ParameterSpec& spec : specs) {
    const bool known = std::ranges::any_of(
        parameters_, [&](const ParameterSpec& other) { return other.name == spec.name; });
    if (!known) parameters_.push_back(spec);
  }
}

}  // namespace turbolstm
