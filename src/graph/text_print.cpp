#include <cmath>
#include <iterator>

#include "base/error.h"
#include "graph/text.h"
#include "graph/text_lexer.h"

namespace turbolstm {
namespace {

std::string Call(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  return node.name.empty() ? fmt::format("%{}", id) : QuotedName(node.name);
}

std::string Operand(const Graph& graph, const Edge& edge) {
  std::string text = Call(graph, edge.source);
  if (edge.delay != 0) text += fmt::format("@{}", edge.delay);
  std::vector<std::string> options;
  if (edge.init != kNoNode) options.push_back("init=" + Call(graph, edge.init));
  if (edge.zoneout != 0) options.push_back(fmt::format("zoneout={}", edge.zoneout));
  if (edge.dropout != 0) options.push_back(fmt::format("dropout={}", edge.dropout));
  if (edge.adjoint) options.emplace_back("adjoint");
  if (!options.empty()) text += fmt::format("({})", fmt::join(options, ", "));
  return text;
}

// The bits, so that a -0 is not lost.
bool Same(double a, double b) {
  return a == b && std::signbit(a) == std::signbit(b);
}

std::string Tail(const Node& node) {
  const Attributes& a = node.attributes;
  const Attributes standard;
  std::string text;
  auto out = std::back_inserter(text);
  if (!Same(a.number, standard.number)) fmt::format_to(out, " number={}", a.number);
  if (!Same(a.scale, standard.scale)) fmt::format_to(out, " scale={}", a.scale);
  if (!Same(a.mean, standard.mean)) fmt::format_to(out, " mean={}", a.mean);
  if (a.begin != standard.begin) fmt::format_to(out, " begin={}", a.begin);
  if (a.size != standard.size) fmt::format_to(out, " size={}", a.size);
  if (a.site != standard.site) fmt::format_to(out, " site={}", a.site);
  if (a.domain != standard.domain) fmt::format_to(out, " domain={}", Name(a.domain));
  if (node.direction == Direction::kReverse) text += " reverse";
  return text;
}

std::string Statement(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const std::string_view op = Traits(node.op).name;
  const std::string name = Call(graph, id);
  const std::string tail = Tail(node);
  if (node.type == ValueType::kIndex) {
    TL_CHECK(node.op == Op::kInput, "[{}] '{}' holds indices, only inputs do", op, name);
    return fmt::format("index {}: {}{}", name, Name(node.domain), tail);
  }
  const std::string type = fmt::format("{}[{}]", Name(node.domain), fmt::join(node.features, ", "));
  if (node.op == Op::kInput || node.op == Op::kParameter) {
    return fmt::format("{} {}: {}{}", op, name, type, tail);
  }
  std::vector<std::string> operands;
  for (const Edge& edge : node.inputs) operands.push_back(Operand(graph, edge));
  return fmt::format("{}: {} = {}({}){}", name, type, op, fmt::join(operands, ", "), tail);
}

}  // namespace

std::string PrintGraph(const Graph& graph) {
  std::string text;
  for (NodeId id = 0; id < graph.size(); ++id) text += Statement(graph, id) + "\n";
  for (const auto& [name, id] : graph.outputs()) {
    text += fmt::format("output {} = {}\n", QuotedName(name), Call(graph, id));
  }
  return text;
}

}  // namespace turbolstm
