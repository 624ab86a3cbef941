#include "execution/typed_programs_cuda.h"

#include <algorithm>

#include "ops/pointwise/affine.h"

namespace turbolstm::cuda {
namespace {

const Buffer& BufferOf(const LoweredGraph& graph, const View& view) {
  return graph.buffers[static_cast<size_t>(view.buffer)];
}

bool SameOrApart(const View& a, const View& b) {
  return a.buffer != b.buffer || a == b || a.column + a.width <= b.column ||
         b.column + b.width <= a.column;
}

// Where one output, in fp32, is linear in what it was some steps before.
void FindScan(const LoweredGraph& graph, const Stage& stage, TypedProgram* typed) {
  for (size_t i = 0; i < stage.inputs.size(); ++i) {
    const Operand& operand = stage.inputs[i];
    if (operand.delay == 0 || BufferOf(graph, operand.view).dtype != DType::kFloat32) continue;
    const auto found = std::find(stage.outputs.begin(), stage.outputs.end(), operand.view);
    if (found == stage.outputs.end()) continue;
    const auto output = static_cast<size_t>(found - stage.outputs.begin());
    const bool second = typed->scan_input >= 0;
    if (second || !FindAffine(stage.program, i, output)) {
      typed->scan_input = typed->scan_output = -1;
      return;
    }
    typed->scan_input = static_cast<int>(i);
    typed->scan_output = static_cast<int>(output);
  }
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
      if (one_kernel) FindScan(graph, stage, &typed);
      programs.push_back(std::move(typed));
    }
  }
  return programs;
}

}  // namespace turbolstm::cuda
