#include "ops/pointwise/tile_code.h"

#include <algorithm>
#include <array>

namespace turbolstm {
namespace {

// For every value the index of the last instruction that reads it; outputs live to the end.
std::vector<int32_t> LastUses(const PointwiseProgram& program) {
  std::vector<int32_t> last(program.ValueCount(), -1);
  for (size_t i = 0; i < program.code.size(); ++i) {
    const auto& [op, a, b, c] = program.code[i];
    const std::array operands{a, b, c};
    for (int k = 0; k < OperandCount(op); ++k) last[operands[k]] = static_cast<int32_t>(i);
  }
  for (int32_t output : program.outputs) last[output] = static_cast<int32_t>(program.code.size());
  return last;
}

}  // namespace

PointwiseTileCode::PointwiseTileCode(const PointwiseProgram& program)
    : inputs(program.inputs),
      constants(program.constants.begin(), program.constants.end()),
      input_is_output(program.inputs.size(), false),
      register_count(program.FirstResult()) {
  const std::vector<int32_t> last = LastUses(program);
  std::vector<int32_t> place(program.ValueCount());
  for (int32_t v = 0; v < program.FirstResult(); ++v) place[v] = v;

  std::vector<int32_t> free;
  for (size_t i = 0; i < program.code.size(); ++i) {
    const auto& [op, a, b, c] = program.code[i];
    const std::array operands{a, b, c};
    Step step{op, 0, 0, 0, 0};
    const std::array<int32_t*, 3> targets{&step.a, &step.b, &step.c};
    for (int k = 0; k < OperandCount(op); ++k) {
      const int32_t value = operands[k];
      *targets[k] = place[value];
      const bool seen =
          std::find(operands.begin(), operands.begin() + k, value) != operands.begin() + k;
      const bool dies = last[value] == static_cast<int32_t>(i) && value >= program.FirstResult();
      if (dies && !seen) free.push_back(place[value]);
    }
    if (free.empty()) free.push_back(register_count++);
    step.to = free.back();
    free.pop_back();
    const int32_t result = program.FirstResult() + static_cast<int32_t>(i);
    place[result] = step.to;
    if (last[result] < 0) free.push_back(step.to);
    steps.push_back(step);
  }
  for (int32_t output : program.outputs) {
    outputs.push_back(place[output]);
    if (output < program.FirstConstant()) input_is_output[output] = true;
  }
}

}  // namespace turbolstm
