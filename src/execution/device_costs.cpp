#include "execution/device_costs.h"

#include <algorithm>
#include <cmath>

#include "execution/split_choice.h"
#include "plan/partition.h"

namespace turbolstm {
namespace {

// A product's result is shared out in tiles of this side, its sums in parts of this length.
constexpr double kTileSide = 128;
constexpr double kSumLength = 1024;

class Works {
 public:
  Works(const LoweredGraph& graph, const DeviceModel& model) : graph_(graph), model_(model) {}

  DeviceWork Of(const Stage& stage, int64_t steps, int64_t rows, bool adds) const {
    DeviceWork work;
    work.latency = model_.launch;
    work.width = static_cast<double>(model_.processors);
    if (stage.domain == Domain::kStatic) rows = 1;
    work.seconds = static_cast<double>(BytesOf(stage, steps, rows, adds)) / model_.bytes;
    if (IsProduct(stage) && stage.domain != Domain::kStatic) AddProduct(stage, rows, &work);
    return work;
  }

 private:
  int64_t RowBytes(const View& view, int64_t rows, int64_t sequences) const {
    if (view.buffer < 0) return 0;
    const Buffer& buffer = graph_.buffers[static_cast<size_t>(view.buffer)];
    const int64_t row = view.width * static_cast<int64_t>(SizeOf(buffer.dtype));
    return buffer.domain == Domain::kStep    ? rows * row
           : buffer.domain == Domain::kBatch ? sequences * row
                                             : row;
  }

  int64_t BytesOf(const Stage& stage, int64_t steps, int64_t rows, bool adds) const {
    const int64_t sequences = steps > 0 ? rows / steps : rows;
    int64_t bytes = 0;
    for (const Operand& operand : stage.inputs) bytes += RowBytes(operand.view, rows, sequences);
    for (const View& output : stage.outputs) {
      bytes += (stage.accumulate || adds ? 2 : 1) * RowBytes(output, rows, sequences);
    }
    return bytes;
  }

  void AddProduct(const Stage& stage, int64_t rows, DeviceWork* work) const {
    const ProductSize size = SizeOfProduct(graph_, stage, rows);
    const auto m = static_cast<double>(size.m), n = static_cast<double>(size.n),
               k = static_cast<double>(size.k), batches = static_cast<double>(size.batches);
    const bool wide = SizeOf(OperandType(graph_.precision)) > 2;
    work->seconds += 2 * m * n * k * batches / (wide ? model_.wide_flops : model_.half_flops);
    const double tiles = batches * std::ceil(m / kTileSide) * std::ceil(n / kTileSide) *
                         std::ceil(std::max(1.0, k) / kSumLength);
    work->width = std::clamp(tiles, 1.0, work->width);
  }

  const LoweredGraph& graph_;
  const DeviceModel& model_;
};

}  // namespace

DeviceWork WorkOf(const LoweredGraph& graph, const Task& task, DevicePart part, bool adds,
                  const DeviceModel& model) {
  const Works works(graph, model);
  const auto processors = static_cast<double>(model.processors);
  if (part == DevicePart::kNarrow) {
    const auto elements = static_cast<double>(task.writes[0].column_end);
    return {model.launch, elements * 6 / model.bytes, processors};  // 4 bytes read, 2 written
  }
  const Group& group = graph.groups[static_cast<size_t>(task.group)];
  const int64_t steps = task.time_end - task.time_begin;
  const int64_t sequences = task.row_end - task.row_begin;
  const int64_t rows = group.domain == Domain::kStep ? steps * sequences : sequences;
  const bool stepwise = group.is_loop() && part == DevicePart::kGroup;
  DeviceWork sum{0, 0, 0};
  double narrowest = processors;
  for (const Stage& stage : group.stages) {
    if (part == DevicePart::kProduct && stage.kind != Stage::Kind::kMatMul) continue;
    const DeviceWork work = works.Of(stage, group.domain == Domain::kStep ? steps : 1, rows, adds);
    sum.latency += work.latency * static_cast<double>(stepwise ? steps : 1);
    sum.seconds += work.seconds;
    narrowest = std::min(narrowest, work.width);
  }
  sum.width = narrowest;
  return sum;
}

}  // namespace turbolstm
