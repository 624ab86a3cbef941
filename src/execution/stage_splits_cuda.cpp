// Products of fp32 values out of products of their pieces: where pieces lie, and when they are
// made.

#include <algorithm>

#include "execution/split_choice.h"
#include "execution/stage_enqueuer_cuda.h"

namespace turbolstm::cuda {
namespace {

constexpr int64_t kAlignment = 256;

int64_t Aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

// Weights have places of their own, the same for every shape; memory there is only when a shape
// wants it.
void StageEnqueuer::PlaceSplitWeights() {
  split_places_.assign(graph_.weights.size(), -1);
  int64_t next = 0;
  ForEachStage(graph_, [&](const Stage& stage) {
    if (stage.kind != Stage::Kind::kMatMul || stage.domain == Domain::kStatic) return;
    int64_t& place = split_places_[static_cast<size_t>(stage.weight)];
    if (place >= 0) return;
    place = next;
    next += Aligned(SplitOfWeight(stage.weight).bytes());
  });
}

SplitMatrix StageEnqueuer::SplitOfWeight(int32_t weight) const {
  const PackedWeight& packed = graph_.weights[static_cast<size_t>(weight)];
  const std::vector<int64_t>& shape = packed.features;
  return SplitWeight(shape.end()[-2], shape.back(), shape.size() == 3 ? shape[0] : 1,
                     packed.transposed);
}

const std::byte* StageEnqueuer::SplitWeightFor(int32_t weight) {
  const auto index = static_cast<size_t>(weight);
  std::byte* const to = split_weights_.data() + split_places_[index];
  if (split_made_[index]) return to;
  const SplitMatrix split = SplitOfWeight(weight);
  Split(split, reinterpret_cast<const float*>(Address(graph_.weights[index].matrix, 0)),
        split.columns, split.rows * split.columns, to, stream());
  split_made_[index] = true;
  return to;
}

void StageEnqueuer::AddSplitRoom(const Stage& stage, int64_t count, Room* room) const {
  if (!IsSplitProduct(graph_, stage, count, split_rule_)) return;
  const ProductSize size = SizeOfProduct(graph_, stage, count);
  const auto add = [&](size_t slot, int64_t width) {
    room->split[slot] = std::max(room->split[slot], SplitRows(count, width, size.batches).bytes());
  };
  if (size.outer) {
    add(0, size.m);
    add(1, size.n);
    return;
  }
  add(0, size.k);
  const int64_t end = split_places_[static_cast<size_t>(stage.weight)] +
                      Aligned(SplitOfWeight(stage.weight).bytes());
  room->split_weights = std::max(room->split_weights, end);
}

void StageEnqueuer::ForgetSplits(const Stage& stage) {
  for (HeldSplit& held : held_) {
    for (const View& output : stage.outputs) {
      if (held.view.buffer == output.buffer) held = {};
    }
  }
}

// Rows of a value that is there for all steps are split with all others of that value, since its
// next reader may want these.
StageEnqueuer::SplitOperand StageEnqueuer::SplitOf(const Rows& x, int64_t count, int64_t width,
                                                   int64_t blocks, size_t slot) {
  const bool whole = x.whole.buffer >= 0;
  if (whole && buffer(x.whole).domain == Domain::kStep) count = rows();
  const SplitOperand operand{SplitRows(count, width, blocks), split_[slot].data(), x.first};
  const HeldSplit wanted{x.whole, blocks};
  if (whole && held_[slot] == wanted) return operand;
  const std::byte* const from = whole ? Address(x.whole, 0) : x.data;
  Split(operand.split, reinterpret_cast<const float*>(from), x.stride, width, split_[slot].data(),
        stream());
  held_[slot] = wanted;
  return operand;
}

void StageEnqueuer::MultiplyPieces(const Gemm& gemm, const Stage& stage, const Rows& x,
                                   int64_t count) {
  const SplitOperand a = SplitOf(x, count, gemm.k, gemm.batches, 0);
  const std::byte* const weight = SplitWeightFor(stage.weight);
  for (const Gemm& product :
       SplitProducts(gemm, a.split, a.pieces, SplitOfWeight(stage.weight), weight)) {
    Run(product);
  }
}

void StageEnqueuer::SumOuterPieces(const Gemm& gemm, const Rows& a, const Rows& b) {
  const SplitOperand left = SplitOf(a, gemm.k, gemm.m, gemm.batches, 0);
  const SplitOperand right = SplitOf(b, gemm.k, gemm.n, gemm.batches, 1);
  for (const Gemm& product : SplitOuterProducts(gemm, left.split, left.pieces, left.row,
                                                right.split, right.pieces, right.row)) {
    Run(product);
  }
}

}  // namespace turbolstm::cuda
