#include "plan/named_views.h"

#include "base/error.h"

namespace turbolstm {

int64_t ElementsOf(const NamedView& value, int64_t steps, int64_t batch) {
  switch (value.domain) {
    case Domain::kStep:
      return steps * batch * value.view.width;
    case Domain::kBatch:
      return batch * value.view.width;
    case Domain::kStatic:
      break;
  }
  return value.view.width;
}

const NamedView& InputNamed(const LoweredGraph& graph, std::string_view name, bool index) {
  for (const NamedView& input : graph.inputs) {
    if (input.name != name) continue;
    const bool is_index = TypeOf(graph, input) == DType::kInt32;
    TL_CHECK(is_index == index, "[bind] input '{}' got {}, wants {}", name,
             index ? "indices" : "numbers", is_index ? "indices" : "numbers");
    return input;
  }
  Fail("[bind] the graph has no input or parameter '{}'", name);
}

const NamedView& OutputNamed(const LoweredGraph& graph, std::string_view name) {
  for (const NamedView& output : graph.outputs) {
    if (output.name == name) return output;
  }
  Fail("[output] the graph has no output '{}'", name);
}

DType TypeOf(const LoweredGraph& graph, const NamedView& value) {
  return graph.buffers[static_cast<size_t>(value.view.buffer)].dtype;
}

void CheckElements(const NamedView& value, int64_t elements, int64_t steps, int64_t batch) {
  const int64_t wanted = ElementsOf(value, steps, batch);
  TL_CHECK(elements == wanted, "[bind] '{}' got {} elements, wants {} ({} {})", value.name,
           elements, wanted, Name(value.domain), value.features);
}

}  // namespace turbolstm
