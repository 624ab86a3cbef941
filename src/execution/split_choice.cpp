#include "execution/split_choice.h"

#include <algorithm>

namespace turbolstm {
namespace {

bool IsProductOverSteps(const Group& group) {
  if (group.is_loop() || group.stages.size() != 1) return false;
  const Stage& stage = group.stages[0];
  return IsProduct(stage) && stage.domain == Domain::kStep && stage.inputs[0].delay == 0;
}

bool IsSumOverSteps(const Group& group) {
  return group.stages.size() == 1 && group.stages[0].op == Op::kSumRows &&
         group.domain == Domain::kStep;
}

bool Touches(const Stage& stage, const View& written) {
  const auto meets = [&](const View& view) { return Overlaps(view, written); };
  return std::any_of(stage.outputs.begin(), stage.outputs.end(), meets) ||
         std::any_of(stage.inputs.begin(), stage.inputs.end(), [&](const Operand& operand) {
           return meets(operand.view) || meets(operand.init);
         });
}

// Whether a group touches nothing that those before it, from `first` on, write.
bool IsApart(const LoweredGraph& graph, size_t first, size_t group) {
  for (size_t before = first; before < group; ++before) {
    for (const View& written : graph.groups[before].stages[0].outputs) {
      if (Touches(graph.groups[group].stages[0], written)) return false;
    }
  }
  return true;
}

size_t EndOfSplitRun(const LoweredGraph& graph, size_t first) {
  if (!IsProductOverSteps(graph.groups[first])) return first;
  const View& rows = graph.groups[first].stages[0].inputs[0].view;
  size_t end = first + 1;
  for (size_t g = end; g < graph.groups.size(); ++g) {
    const Group& group = graph.groups[g];
    const bool same = IsProductOverSteps(group) && group.stages[0].inputs[0].view == rows;
    if ((!same && !IsSumOverSteps(group)) || !IsApart(graph, first, g)) break;
    if (same) end = g + 1;
  }
  return end;
}

}  // namespace

bool IsProduct(const Stage& stage) {
  return stage.kind == Stage::Kind::kMatMul || stage.op == Op::kOuter;
}

ProductSize SizeOfProduct(const LoweredGraph& graph, const Stage& stage, int64_t count) {
  ProductSize size;
  if (stage.op == Op::kOuter) {
    size.outer = true;
    size.batches = std::max<int64_t>(1, stage.attributes.size);
    size.m = stage.inputs[0].view.width / size.batches;
    size.n = stage.inputs[1].view.width / size.batches;
    size.k = count;
    return size;
  }
  const PackedWeight& weight = graph.weights[static_cast<size_t>(stage.weight)];
  const int64_t rows = weight.features.end()[-2];
  const int64_t columns = weight.features.back();
  size.batches = weight.features.size() == 3 ? weight.features[0] : 1;
  size.m = count;
  size.n = weight.transposed ? columns : rows;
  size.k = weight.transposed ? rows : columns;
  return size;
}

bool IsSplitProduct(const LoweredGraph& graph, const Stage& stage, int64_t count, SplitRule rule) {
  if (graph.precision != Precision::kBf16x6) return false;
  if (!IsProduct(stage) || stage.domain == Domain::kStatic) return false;
  return IsSplit(SizeOfProduct(graph, stage, count), rule);
}

std::vector<size_t> EndsOfSplitRuns(const LoweredGraph& graph) {
  std::vector<size_t> ends(graph.groups.size());
  size_t end = 0;
  for (size_t g = 0; g < ends.size(); ++g) {
    const bool begins = g >= end && graph.precision == Precision::kBf16x6;
    ends[g] = begins ? EndOfSplitRun(graph, g) : g;
    end = std::max(end, ends[g]);
  }
  return ends;
}

}  // namespace turbolstm
