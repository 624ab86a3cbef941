#include "plan/any_inputs.h"

#include "base/philox.h"

namespace turbolstm {

AnyInputs::AnyInputs(Execution* execution, int64_t steps, int64_t batch) {
  const LoweredGraph& graph = execution->lowered();
  const int64_t rows = steps * batch;
  for (const NamedView& input : graph.inputs) {
    int64_t count = input.view.width;
    if (input.domain != Domain::kStatic) count *= input.domain == Domain::kStep ? rows : batch;
    const auto elements = static_cast<size_t>(count);
    if (graph.buffers[static_cast<size_t>(input.view.buffer)].dtype == DType::kInt32) {
      execution->BindIndices(input.name, indices_.emplace_back(elements, 0));
    } else {
      std::vector<float>& values = numbers_.emplace_back(elements);
      const RandomSite site{1, 0, static_cast<uint32_t>(numbers_.size())};
      for (size_t i = 0; i < elements; ++i) values[i] = 0.1f * (site.Uniform(i) - 0.5f);
      execution->Bind(input.name, values);
    }
  }
}

double AnyInputs::Mebibytes() const {
  constexpr double kMiB = 1024.0 * 1024;
  size_t elements = 0;
  for (const std::vector<float>& values : numbers_) elements += values.size();
  for (const std::vector<int32_t>& indices : indices_) elements += indices.size();
  return static_cast<double>(elements * sizeof(float)) / kMiB;
}

}  // namespace turbolstm
