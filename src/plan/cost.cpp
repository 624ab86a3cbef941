#include "plan/cost.h"

#include <algorithm>
#include <set>

#include "plan/work_kind.h"

namespace turbolstm {
namespace {

// What a row of a view takes that has rows.
double RowBytesOf(const LoweredGraph& graph, const View& view) {
  if (view.buffer < 0) return 0;
  const Buffer& buffer = graph.buffers[static_cast<size_t>(view.buffer)];
  if (buffer.domain == Domain::kStatic) return 0;
  return static_cast<double>(view.width) * static_cast<double>(SizeOf(buffer.dtype));
}

// What a row of the stage's operands and results takes.
double OperandBytes(const LoweredGraph& graph, const Stage& stage) {
  double bytes = 0;
  for (const Operand& operand : stage.inputs) bytes += RowBytesOf(graph, operand.view);
  for (const View& view : stage.outputs) bytes += RowBytesOf(graph, view);
  return bytes;
}

double WeightBytes(const LoweredGraph& graph, const Stage& stage) {
  const PackedWeight& weight = graph.weights[static_cast<size_t>(stage.weight)];
  const auto elements = static_cast<double>(ElementCount(weight.features));
  return elements * (graph.precision == Precision::kBFloat16 ? 2 : 4);
}

// Work on `rows` rows in each of `calls` calls.
struct Calls {
  double rows = 0;
  double calls = 1;
};

double ProductSeconds(const LoweredGraph& graph, const Stage& stage, const Calls& calls,
                      const CostModel& model) {
  const double bytes = WeightBytes(graph, stage);
  const double rate = bytes <= model.cache ? model.weights : model.far_weights;
  const double inner = static_cast<double>(stage.inputs[0].view.width);
  const double heads =
      graph.weights[static_cast<size_t>(stage.weight)].features.size() == 3
          ? static_cast<double>(graph.weights[static_cast<size_t>(stage.weight)].features[0])
          : 1;
  const double flops = 2 * calls.rows * inner * static_cast<double>(stage.outputs[0].width) / heads;
  if (calls.rows == 0) return 0;
  return calls.calls * std::max(flops / model.product_flops, bytes / rate);
}

double StageSeconds(const LoweredGraph& graph, const Stage& stage, const Calls& calls,
                    const CostModel& model) {
  const double rows = calls.rows * calls.calls;
  if (stage.kind == Stage::Kind::kMatMul) return ProductSeconds(graph, stage, calls, model);
  const double touched = rows * OperandBytes(graph, stage) / model.bytes;
  if (stage.kind == Stage::Kind::kPointwise) {
    const PointwiseCost cost = stage.program.Cost(1, stage.outputs[0].width, sizeof(float));
    return rows * cost.flops / model.pointwise_flops + touched;
  }
  const auto result = static_cast<double>(stage.outputs[0].width);
  if (stage.op == Op::kOuter) {
    return 2 * rows * static_cast<double>(stage.inputs[1].view.width) *
               static_cast<double>(stage.inputs[0].view.width) / model.product_flops +
           2 * result * sizeof(float) / model.sums;
  }
  // Of a table only the rows that are looked up are touched.
  if (stage.op == Op::kGather) return 2 * rows * result * sizeof(float) / model.bytes;
  if (stage.op == Op::kScatterAdd) {
    const auto row = static_cast<double>(stage.inputs[1].view.width);
    return (result + 3 * rows * row) * sizeof(float) / model.bytes;
  }
  return touched;
}

Calls CallsOf(const Group& group, const RowLayout& layout, const Task& task) {
  const auto rows = static_cast<double>(task.row_end - task.row_begin);
  if (group.domain != Domain::kStep) return {rows, 1};
  const auto all =
      static_cast<double>(layout.offset(task.time_end) - layout.offset(task.time_begin));
  if (KindOfWork(group) == WorkKind::kReduction) return {all, 1};
  const auto batch = static_cast<double>(std::max<int64_t>(1, layout.batch()));
  const auto steps = static_cast<double>(std::max<int64_t>(1, task.time_end - task.time_begin));
  const double tile = all * rows / batch;
  return group.is_loop() ? Calls{tile / steps, steps} : Calls{tile, 1};
}

}  // namespace

double TaskCost(const LoweredGraph& graph, const RowLayout& layout, const Task& task,
                double working_set, const CostModel& model) {
  const Group& group = graph.groups[static_cast<size_t>(task.group)];
  const Calls calls = CallsOf(group, layout, task);
  const double far = working_set <= model.cache ? 0 : 1 - model.cache / working_set;
  double seconds = 0;
  for (const Stage& stage : group.stages) {
    seconds += model.call * calls.calls + StageSeconds(graph, stage, calls, model);
    seconds += far * calls.rows * calls.calls * OperandBytes(graph, stage) / model.far_bytes;
    if (stage.weight >= 0) seconds += far * WeightBytes(graph, stage) / model.far_weights;
  }
  // A part of a sum over rows has a part of its columns.
  double share = 1;
  if (KindOfWork(group) == WorkKind::kReduction) {
    const auto columns = static_cast<double>(group.stages[0].inputs[0].view.width);
    share = columns == 0 ? 0 : static_cast<double>(task.row_end - task.row_begin) / columns;
  }
  return model.task + share * seconds;
}

double UpdateCost(int64_t elements, const CostModel& model) {
  constexpr double kTouched = 8;  // numbers read and written
  return model.task + kTouched * sizeof(float) * static_cast<double>(elements) / model.bytes;
}

double BytesOfWeights(const LoweredGraph& graph, const std::vector<int32_t>& groups) {
  std::set<int32_t> read;
  double bytes = 0;
  for (const int32_t id : groups) {
    for (const Stage& stage : graph.groups[static_cast<size_t>(id)].stages) {
      if (stage.weight >= 0 && read.insert(stage.weight).second) bytes += WeightBytes(graph, stage);
    }
  }
  return bytes;
}

double RowBytes(const LoweredGraph& graph, const std::vector<int32_t>& groups) {
  std::set<int32_t> touched;
  for (const int32_t id : groups) {
    for (const Stage& stage : graph.groups[static_cast<size_t>(id)].stages) {
      for (const Operand& operand : stage.inputs) touched.insert(operand.view.buffer);
      for (const View& view : stage.outputs) touched.insert(view.buffer);
    }
  }
  double bytes = 0;
  for (const int32_t id : touched) {
    if (id < 0) continue;
    const Buffer& buffer = graph.buffers[static_cast<size_t>(id)];
    if (buffer.domain != Domain::kStep || buffer.local || buffer.ring > 0) continue;
    bytes += static_cast<double>(buffer.width) * static_cast<double>(SizeOf(buffer.dtype));
  }
  return bytes;
}

}  // namespace turbolstm
