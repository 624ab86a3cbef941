#include "execution/split_choice.h"

#include <algorithm>

namespace turbolstm {

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

}  // namespace turbolstm
