#include "execution/typed_programs_cuda.h"

#include <algorithm>

namespace turbolstm::cuda {
namespace {

const Buffer& BufferOf(const LoweredGraph& graph, const View& view) {
  return graph.buffers[static_cast<size_t>(view.buffer)];
}

bool SameOrApart(const View& a, const View& b) {
  return a.buffer != b.buffer || a == b || a.column + a.width <= b.column ||
         b.column + b.width <= a.column;
}

}  // namespace

bool RunsInOneKernel(const LoweredGraph& graph, const Group& group) {
  if (!group.is_loop() || group.stages.size() != 1) return false;
  const Stage& stage = group.stages[0];
  if (stage.kind != Stage::Kind::kPointwise) return false;
  return std::all_of(stage.outputs.begin(), stage.outputs.end(), [&](const View& output) {
    return BufferOf(graph, output).domain == Domain::kStep &&
           std::all_of(stage.inputs.begin(), stage.inputs.end(),
                       [&](const Operand& operand) { return SameOrApart(output, operand.view); });
  });
}

std::vector<TypedProgram> TypedProgramsOf(const LoweredGraph& graph) {
  std::vector<TypedProgram> programs;
  for (const Group& group : graph.groups) {
    const bool one_kernel = RunsInOneKernel(graph, group);
    for (const Stage& stage : group.stages) {
      if (stage.kind != Stage::Kind::kPointwise) continue;
      TypedProgram typed{stage.program, {}, {}, one_kernel};
      for (const Operand& operand : stage.inputs) {
        typed.inputs.push_back(BufferOf(graph, operand.view).dtype);
      }
      for (const View& output : stage.outputs) {
        typed.outputs.push_back(BufferOf(graph, output).dtype);
      }
      programs.push_back(std::move(typed));
    }
  }
  return programs;
}

}  // namespace turbolstm::cuda
