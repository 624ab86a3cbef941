#include "plan/describe.h"

#include <fmt/format.h>

namespace turbolstm {
namespace {

std::string Describe(const LoweredGraph& graph, const View& view) {
  const Buffer& buffer = graph.buffers[static_cast<size_t>(view.buffer)];
  if (view.width == buffer.width) return buffer.name;
  return fmt::format("{}[{}:{}]", buffer.name, view.column, view.column + view.width);
}

std::string Describe(const LoweredGraph& graph, const Operand& operand) {
  std::string text = Describe(graph, operand.view);
  if (operand.delay > 0) text += fmt::format("@{}", operand.delay);
  if (operand.init.buffer >= 0) text += fmt::format("(init={})", Describe(graph, operand.init));
  return text;
}

template <typename Places>
std::string List(const LoweredGraph& graph, const Places& places) {
  std::vector<std::string> texts;
  for (const auto& place : places) texts.push_back(Describe(graph, place));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string Describe(const LoweredGraph& graph, const Stage& stage) {
  std::string_view what = "program";
  if (stage.kind == Stage::Kind::kMatMul) what = "product";
  if (stage.kind == Stage::Kind::kNode) what = Traits(stage.op).name;
  std::string text = fmt::format("{} {} -> {}{}", what, List(graph, stage.inputs),
                                 stage.accumulate ? "+= " : "", List(graph, stage.outputs));
  if (stage.bias.buffer >= 0) text += fmt::format(" + {}", Describe(graph, stage.bias));
  return text;
}

std::string Describe(const Buffer& buffer) {
  std::string text = fmt::format("{}: {}[{}] {}", buffer.name, Name(buffer.domain), buffer.width,
                                 buffer.dtype == DType::kBFloat16 ? "bf16" : "fp32");
  if (buffer.local) text += " local";
  if (buffer.ring > 0) text += fmt::format(" ring {}", buffer.ring);
  return text;
}

}  // namespace

std::string Describe(const LoweredGraph& graph) {
  std::string text;
  for (const Group& group : graph.groups) {
    std::vector<std::string> stages;
    for (const Stage& stage : group.stages) stages.push_back(Describe(graph, stage));
    text += fmt::format("{}: {}\n", Name(group.kind), fmt::join(stages, "; "));
  }
  for (const Buffer& buffer : graph.buffers) {
    if (buffer.source == BufferSource::kComputed) text += fmt::format("{}\n", Describe(buffer));
  }
  return text;
}

}  // namespace turbolstm
