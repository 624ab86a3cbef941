#include "plan/cost.h"

namespace turbolstm {
namespace {

double Width(const std::vector<Operand>& operands) {
  double width = 0;
  for (const Operand& operand : operands) width += static_cast<double>(operand.view.width);
  return width;
}

}  // namespace

double StageCost(const LoweredGraph& graph, const Stage& stage, int64_t rows, int64_t calls,
                 const CostModel& model) {
  const double overhead = model.call * static_cast<double>(calls);
  const auto r = static_cast<double>(rows);
  const auto n = static_cast<double>(stage.outputs[0].width);
  if (stage.kind == Stage::Kind::kMatMul) {
    const auto k = static_cast<double>(stage.inputs[0].view.width);
    return overhead + 2 * r * k * n / model.product_flops;
  }
  if (stage.kind == Stage::Kind::kPointwise) {
    const PointwiseCost cost = stage.program.Cost(rows, stage.outputs[0].width, sizeof(float));
    return overhead + cost.flops / model.pointwise_flops;
  }
  if (stage.op == Op::kOuter) {
    const auto m = static_cast<double>(stage.inputs[0].view.width);
    const auto k = static_cast<double>(stage.inputs[1].view.width);
    return overhead + 2 * r * k * m / model.product_flops;
  }
  const auto element = static_cast<double>(
      SizeOf(graph.buffers[static_cast<size_t>(stage.outputs[0].buffer)].dtype));
  // Of a table only the rows that are looked up are touched.
  if (stage.op == Op::kGather) return overhead + r * 2 * n * element / model.bytes;
  if (stage.op == Op::kScatterAdd) {
    const auto row = static_cast<double>(stage.inputs[1].view.width);
    return overhead + (n + 3 * r * row) * element / model.bytes;
  }
  return overhead + r * (Width(stage.inputs) + n) * element / model.bytes;
}

}  // namespace turbolstm
