#include "graph/dot.h"

#include <iterator>

#include "base/error.h"

namespace turbolstm {
namespace {

// As text in double quotes. A backslash stays one: Graphviz knows escapes of its own.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

std::string NodeLine(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const bool source = node.inputs.empty();
  std::string label = node.name.empty() ? "" : node.name + " = ";
  label += fmt::format("{}\n{}{}", Traits(node.op).name, Name(node.domain), node.features);
  if (node.direction == Direction::kReverse) label += " reverse";
  return fmt::format("n{} [shape={}, label={}];\n", id, source ? "ellipse" : "box", Quoted(label));
}

// What stands on an edge: its delay and transforms.
std::string EdgeLabel(const Edge& edge) {
  std::string label;
  auto out = std::back_inserter(label);
  if (edge.delay > 0) fmt::format_to(out, "@{}", edge.delay);
  if (edge.zoneout > 0) fmt::format_to(out, " zoneout={}", edge.zoneout);
  if (edge.dropout > 0) fmt::format_to(out, " dropout={}", edge.dropout);
  if (edge.adjoint) label += " adjoint";
  return label;
}

std::string EdgeLines(const Graph& graph, NodeId id) {
  std::string text;
  auto out = std::back_inserter(text);
  for (const Edge& edge : graph.node(id).inputs) {
    fmt::format_to(out, "  n{} -> n{}", edge.source, id);
    // A delayed edge does not rank its ends: it may close a cycle.
    if (edge.delay > 0) {
      fmt::format_to(out, " [style=dashed, constraint=false, label={}]", Quoted(EdgeLabel(edge)));
    }
    text += ";\n";
    if (edge.init != kNoNode) {
      fmt::format_to(out, "  n{} -> n{} [style=dotted, label=\"init\"];\n", edge.init, id);
    }
  }
  return text;
}

std::string RegionLabel(const Region& region) {
  std::string label(Name(region.kind));
  if (region.direction == Direction::kReverse) label += ", reverse";
  if (region.levels > 0)
    label += fmt::format(", {} level{}", region.levels, region.levels > 1 ? "s" : "");
  return label;
}

std::string RegionLines(const Graph& graph, const Region& region, size_t number) {
  const bool box = region.is_loop() || region.nodes.size() > 1;
  std::string text;
  if (box) {
    text += fmt::format("  subgraph cluster{} {{\n    label={};\n", number,
                        Quoted(RegionLabel(region)));
  }
  for (const NodeId id : region.nodes) text += (box ? "    " : "  ") + NodeLine(graph, id);
  return box ? text + "  }\n" : text;
}

}  // namespace

std::string PrintDot(const Graph& graph, const Analysis* analysis) {
  std::string text = "digraph {\n";
  if (analysis != nullptr) {
    for (size_t i = 0; i < analysis->regions.size(); ++i) {
      text += RegionLines(graph, analysis->regions[i], i);
    }
  } else {
    for (NodeId id = 0; id < graph.size(); ++id) text += "  " + NodeLine(graph, id);
  }
  for (NodeId id = 0; id < graph.size(); ++id) text += EdgeLines(graph, id);
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const auto& [name, id] = graph.outputs()[i];
    text +=
        fmt::format("  o{} [shape=plaintext, label={}];\n  n{} -> o{};\n", i, Quoted(name), id, i);
  }
  return text + "}\n";
}

}  // namespace turbolstm
