#include "plan/uses.h"

#include <algorithm>

#include "base/index.h"

namespace turbolstm {
namespace {}  // namespace

int64_t RowWidth(const Node& node) {
  return node.domain == Domain::kStatic ? ElementCount(node.features) : node.features[0];
}

Uses::Uses(const Graph& graph)
    : graph_(graph),
      view_(at(graph.size()), false),
      output_(at(graph.size()), false),
      uses_(at(graph.size())) {
  for (const auto& [name, id] : graph.outputs()) output_[at(id)] = true;
  std::vector<bool> read_delayed(at(graph.size()), false);
  for (const Node& node : graph.nodes()) {
    for (const Edge& edge : node.inputs) {
      if (edge.delay > 0) read_delayed[at(edge.source)] = true;
    }
  }
  for (NodeId id = 0; id < graph.size(); ++id) view_[at(id)] = CanBeView(id, read_delayed);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (view_[at(id)]) continue;
    const Node& node = graph.node(id);
    for (const Edge& edge : node.inputs) {
      const ResolvedEdge resolved = Resolve(node, edge);
      uses_[at(resolved.value)].push_back({id, resolved.delay > 0, resolved.init != kNoNode});
      if (resolved.init == kNoNode) continue;
      uses_[at(Base(resolved.init))].push_back({.reader = id, .as_init = true});
    }
  }
}

bool Uses::CanBeView(NodeId id, const std::vector<bool>& read_delayed) const {
  const Node& node = graph_.node(id);
  if (output_[at(id)] || node.domain == Domain::kStatic || node.inputs.size() != 1) return false;
  const Edge& edge = node.inputs[0];
  const Node& source = graph_.node(edge.source);
  if (source.domain != node.domain) return false;
  // Two delays in a row have two initial values: the first is then stored.
  if (read_delayed[at(id)] && (edge.delay > 0 || ReadsDelayedView(edge.source))) return false;
  if (node.op == Op::kSlice) return true;
  return node.op == Op::kIdentity && edge.delay > 0 && source.features == node.features;
}

bool Uses::ReadsDelayedView(NodeId id) const {
  for (; view_[at(id)]; id = graph_.node(id).inputs[0].source) {
    if (graph_.node(id).inputs[0].delay > 0) return true;
  }
  return false;
}

NodeId Uses::Base(NodeId id) const {
  while (view_[at(id)]) id = graph_.node(id).inputs[0].source;
  return id;
}

bool Uses::ReadsPart(NodeId reader, NodeId value) const {
  const Node& node = graph_.node(reader);
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](const Edge& edge) {
    const ResolvedEdge read = Resolve(node, edge);
    return read.value == value && read.width != RowWidth(graph_.node(value));
  });
}

ResolvedEdge Uses::Resolve(const Node& reader, const Edge& edge) const {
  ResolvedEdge result;
  result.value = edge.source;
  result.width = RowWidth(graph_.node(edge.source));
  const auto delay = [&](const Node& node, const Edge& by) {
    result.delay = by.delay;
    result.direction = node.direction;
    result.adjoint = by.adjoint;
    result.init = by.init;
    result.init_stride = graph_.node(by.source).features[0];
  };
  if (edge.delay > 0) delay(reader, edge);
  while (view_[at(result.value)]) {
    const Node& view = graph_.node(result.value);
    if (view.op == Op::kSlice) {
      // Columns of a value that is delayed further in are also columns of its initial value.
      result.column += view.attributes.begin;
      if (result.delay == 0) result.init_column += view.attributes.begin;
    }
    if (view.inputs[0].delay > 0) delay(view, view.inputs[0]);
    result.value = view.inputs[0].source;
  }
  return result;
}

}  // namespace turbolstm
