#include "execution/narrow_statics.h"

#include <algorithm>

#include "execution/padded_rows.h"

namespace turbolstm {

std::vector<View> NarrowStaticsOf(const LoweredGraph& graph, const Stage& stage) {
  const DType narrow = OperandType(graph.precision);
  if (narrow == DType::kFloat32 || stage.weight < 0 || stage.domain == Domain::kStatic) return {};
  std::vector<View> statics = {graph.weights[static_cast<size_t>(stage.weight)].matrix};
  const View& output = stage.outputs[0];
  const bool half = graph.buffers[static_cast<size_t>(output.buffer)].dtype == narrow;
  if (half && stage.bias.buffer >= 0) statics.push_back(stage.bias);
  return statics;
}

// A bias is one row.
NarrowRows NarrowRowsOf(const LoweredGraph& graph, const View& view) {
  const auto weight =
      std::find_if(graph.weights.begin(), graph.weights.end(),
                   [&](const PackedWeight& packed) { return packed.matrix == view; });
  const int64_t columns = weight == graph.weights.end() ? view.width : weight->features.back();
  const int64_t rows = columns == 0 ? 0 : view.width / columns;
  return {rows, columns, PaddedColumns(columns, OperandType(graph.precision))};
}

std::vector<View> NarrowStaticsOf(const LoweredGraph& graph) {
  std::vector<View> all;
  ForEachStage(graph, [&](const Stage& stage) {
    for (const View& view : NarrowStaticsOf(graph, stage)) {
      if (std::find(all.begin(), all.end(), view) == all.end()) all.push_back(view);
    }
  });
  return all;
}

}  // namespace turbolstm
