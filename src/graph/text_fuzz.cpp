// Any text is either refused with an Error or a graph that survives printing, analysis and a run.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "graph/analysis.h"
#include "graph/interpreter.h"
#include "graph/text.h"

namespace turbolstm {
namespace {

constexpr int64_t kMostRunElements = 1 << 12;

bool IsSmall(const Graph& graph) {
  int64_t sum = 0;
  for (const Node& node : graph.nodes()) {
    for (const int64_t n : node.features) {
      if (n > kMostRunElements) return false;
    }
    if (node.features.size() > 2) return false;
    sum += ElementCount(node.features);
    for (const Edge& edge : node.inputs) sum += edge.delay;
    if (sum > kMostRunElements) return false;
  }
  return true;
}

void RunOnZeros(const Graph& graph) {
  Bindings bindings;
  bindings.steps = 3;
  bindings.batch = 2;
  bindings.lengths = {3, 1};
  bindings.resets = {0, 0, 1, 0, 0, 0};
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::kInput && node.op != Op::kParameter) continue;
    const std::vector<int64_t> shape = FullShape(node, bindings);
    const auto size = static_cast<size_t>(ElementCount(shape));
    if (node.type == ValueType::kIndex) {
      bindings.indices[node.name] = {shape, std::vector<int32_t>(size)};
    } else {
      bindings.values[node.name] = {shape, std::vector<double>(size)};
    }
  }
  Interpret(graph, bindings);
}

}  // namespace
}  // namespace turbolstm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace turbolstm;
  try {
    const Graph graph = ParseGraph({reinterpret_cast<const char*>(data), size});
    const std::string text = PrintGraph(graph);
    if (PrintGraph(ParseGraph(text)) != text) std::abort();
    Analyse(graph);
    if (IsSmall(graph)) RunOnZeros(graph);
  } catch (const Error&) {
  }
  return 0;
}
