#include "graph/interpreter_checks.h"

#include <set>
#include <string_view>

#include "base/error.h"
#include "graph/shapes.h"

namespace turbolstm {
namespace {

template <typename T>
void CheckArray(const Node& node, const std::map<std::string, BasicArray<T>>& arrays,
                const std::vector<int64_t>& wanted) {
  const std::string_view op = Traits(node.op).name;
  const auto found = arrays.find(node.name);
  TL_CHECK(found != arrays.end(), "[{}] '{}' is not bound, wants {}", op, node.name, wanted);
  const BasicArray<T>& array = found->second;
  TL_CHECK(array.shape == wanted, "[{}] '{}' is bound to {}, wants {}", op, node.name, array.shape,
           wanted);
  TL_CHECK(static_cast<int64_t>(array.data.size()) == ElementCount(wanted),
           "[{}] '{}' holds {} elements, its shape {} wants {}", op, node.name, array.data.size(),
           wanted, ElementCount(wanted));
}

template <typename T>
void CheckKnown(const std::map<std::string, BasicArray<T>>& arrays,
                const std::set<std::string_view>& known) {
  for (const auto& [name, array] : arrays) {
    TL_CHECK(known.contains(name), "[bindings] '{}' is bound, the graph has no such {}", name,
             std::is_same_v<T, double> ? "input or parameter" : "index input");
  }
}

void CheckSequences(const Bindings& bindings) {
  TL_CHECK(bindings.steps >= 0 && bindings.batch >= 0, "[bindings] got T = {} and B = {}",
           bindings.steps, bindings.batch);
  const std::vector<int64_t>& lengths = bindings.lengths;
  TL_CHECK(lengths.empty() || static_cast<int64_t>(lengths.size()) == bindings.batch,
           "[bindings] got {} lengths, wants B = {}", lengths.size(), bindings.batch);
  for (size_t b = 0; b < lengths.size(); ++b) {
    TL_CHECK(lengths[b] >= 0 && lengths[b] <= bindings.steps,
             "[bindings] length {} is {}, wants 0 to T = {}", b, lengths[b], bindings.steps);
  }
  const auto rows = static_cast<size_t>(bindings.steps * bindings.batch);
  TL_CHECK(bindings.resets.empty() || bindings.resets.size() == rows,
           "[bindings] got {} resets, wants T * B = {}", bindings.resets.size(), rows);
}

void CheckEdge(const Graph& graph, NodeId reader, const Edge& edge) {
  TL_CHECK(edge.zoneout == 0 && edge.dropout == 0,
           "[interpreter] '{}' reads {}@{} with {}, which LowerTransforms expands beforehand",
           graph.Label(reader), graph.Label(edge.source), edge.delay,
           edge.zoneout != 0 ? "zoneout" : "dropout");
  TL_CHECK(!edge.adjoint || edge.init == kNoNode,
           "[interpreter] '{}' reads {}@{} as an adjoint with an initial value",
           graph.Label(reader), graph.Label(edge.source), edge.delay);
}

}  // namespace

std::vector<int64_t> FullShape(const Node& node, const Bindings& bindings) {
  std::vector<int64_t> shape;
  if (node.domain == Domain::kStep) shape.push_back(bindings.steps);
  if (node.domain != Domain::kStatic) shape.push_back(bindings.batch);
  if (node.type == ValueType::kFloat) {
    shape.insert(shape.end(), node.features.begin(), node.features.end());
  }
  return shape;
}

void CheckInterpretable(const Graph& graph) {
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    Node inferred = node;
    InferShape(graph, &inferred);
    TL_CHECK(inferred.features == node.features && inferred.domain == node.domain,
             "[interpreter] '{}' is {} {}, its operands make it {} {}", graph.Label(id),
             Name(node.domain), node.features, Name(inferred.domain), inferred.features);
    for (const Edge& edge : node.inputs) CheckEdge(graph, id, edge);
  }
}

void CheckBindings(const Graph& graph, const Bindings& bindings) {
  CheckSequences(bindings);
  std::set<std::string_view> values;
  std::set<std::string_view> indices;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::kInput && node.op != Op::kParameter) continue;
    TL_CHECK(!node.name.empty(), "[{}] has no name to be bound by", Traits(node.op).name);
    const std::vector<int64_t> wanted = FullShape(node, bindings);
    if (node.type == ValueType::kIndex) {
      CheckArray(node, bindings.indices, wanted);
      indices.insert(node.name);
    } else {
      CheckArray(node, bindings.values, wanted);
      values.insert(node.name);
    }
  }
  CheckKnown(bindings.values, values);
  CheckKnown(bindings.indices, indices);
}

}  // namespace turbolstm
