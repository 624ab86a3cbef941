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

// The same for every shape; memory there is only when a shape wants it. Weights that are not read
// in the same turns lie in one place; groups that take turns some rows at once read all of theirs
// in all of these turns.
void StageEnqueuer::PlaceSplitWeights() {
  struct Life {
    int64_t first = -1, last = -1;  // turns
    int64_t begin = 0, end = 0;
  };
  std::vector<Life> lives(graph_.weights.size());
  size_t begin = 0, end = 0;  // of the run that a group is in
  for (size_t g = 0; g < graph_.groups.size(); ++g) {
    if (g >= end) {
      begin = g;
      end = std::max(g + 1, split_runs_[g]);
    }
    for (const Stage& stage : graph_.groups[g].stages) {
      if (stage.kind != Stage::Kind::kMatMul || stage.domain == Domain::kStatic) continue;
      Life& life = lives[static_cast<size_t>(stage.weight)];
      if (life.first < 0) life.first = turns_[begin];
      life.last = turns_[end - 1];
    }
  }
  split_places_.assign(graph_.weights.size(), -1);
  for (size_t w = 0; w < lives.size(); ++w) {
    Life& life = lives[w];
    if (life.first < 0) continue;
    const int64_t bytes = Aligned(SplitOfWeight(static_cast<int32_t>(w)).bytes());
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t other = 0; other < w; ++other) {
        const Life& placed = lives[other];
        const bool meet = placed.first >= 0 && placed.first <= life.last &&
                          life.first <= placed.last && placed.begin < life.begin + bytes &&
                          life.begin < placed.end;
        if (meet) life.begin = placed.end;
        moved |= meet;
      }
    }
    life.end = life.begin + bytes;
    split_places_[w] = life.begin;
  }
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
  const int64_t at_once = std::min(count, RowsAtOnce());
  const auto add = [&](size_t slot, int64_t width) {
    room->split[slot] =
        std::max(room->split[slot], SplitRows(at_once, width, size.batches).bytes());
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

StageEnqueuer::SplitOperand StageEnqueuer::SplitOf(const Rows& x, int64_t count, int64_t width,
                                                   int64_t blocks, size_t slot) {
  HeldSplit& held = held_[slot];
  const bool whole = x.whole.buffer >= 0;
  if (whole && held.view == x.whole && held.blocks == blocks && held.first <= x.first &&
      x.first + count <= held.first + held.count) {
    return {SplitRows(held.count, width, blocks), split_[slot].data(), x.first - held.first};
  }
  const SplitMatrix split = SplitRows(count, width, blocks);
  Split(split, reinterpret_cast<const float*>(x.data), x.stride, width, split_[slot].data(),
        stream());
  held = {x.whole, blocks, x.first, count};
  return {split, split_[slot].data(), 0};
}

namespace {

const std::byte* RowsBehind(const std::byte* data, int64_t rows, int64_t stride, DType dtype) {
  return data + rows * stride * static_cast<int64_t>(SizeOf(dtype));
}

}  // namespace

void StageEnqueuer::MultiplyPieces(const Gemm& gemm, const Stage& stage, const Rows& x) {
  const std::byte* const weight = SplitWeightFor(stage.weight);
  const SplitMatrix of_weight = SplitOfWeight(stage.weight);
  const int64_t at_once = RowsAtOnce();
  for (int64_t first = 0; first < gemm.m; first += at_once) {
    Rows rows = x;
    rows.data = RowsBehind(x.data, first, x.stride, x.dtype);
    rows.first += first;
    Gemm part = gemm;
    part.m = std::min(at_once, gemm.m - first);
    part.like_m = 0;
    part.c = static_cast<std::byte*>(gemm.c) +
             first * gemm.c_stride * static_cast<int64_t>(SizeOf(gemm.c_dtype));
    const SplitOperand a = SplitOf(rows, part.m, gemm.k, gemm.batches, 0);
    const std::byte* const pieces = a.pieces + a.row * a.split.stride * 2;
    for (const Gemm& product : SplitProducts(part, a.split, pieces, of_weight, weight)) {
      Run(product);
    }
  }
}

void StageEnqueuer::SumOuterPieces(const Gemm& gemm, const Rows& a, const Rows& b) {
  const int64_t at_once = RowsAtOnce();
  for (int64_t first = 0; first < gemm.k; first += at_once) {
    const auto behind = [&](Rows rows) {
      rows.data = RowsBehind(rows.data, first, rows.stride, rows.dtype);
      rows.first += first;
      return rows;
    };
    Gemm part = gemm;
    part.k = std::min(at_once, gemm.k - first);
    part.accumulate = gemm.accumulate || first > 0;
    const SplitOperand left = SplitOf(behind(a), part.k, gemm.m, gemm.batches, 0);
    const SplitOperand right = SplitOf(behind(b), part.k, gemm.n, gemm.batches, 1);
    for (const Gemm& product : SplitOuterProducts(part, left.split, left.pieces, left.row,
                                                  right.split, right.pieces, right.row)) {
      Run(product);
    }
  }
}

// --- Groups that read the same rows.

bool StageEnqueuer::IsSplitOverSteps(const Stage& stage) const {
  if (!IsSplitProduct(graph_, stage, rows(), split_rule_)) return false;
  for (size_t i = 0; i < stage.inputs.size(); ++i) {
    if (MustGather(stage, i, false)) return false;
  }
  return true;
}

size_t StageEnqueuer::EndOfSplits(size_t first, size_t limit) const {
  const size_t end = split_runs_[first];
  if (end > limit) return first;
  for (size_t g = first; g < end; ++g) {
    const Stage& stage = graph_.groups[g].stages[0];
    if (IsProduct(stage) && !IsSplitOverSteps(stage)) return first;
  }
  return end;
}

void StageEnqueuer::EnqueueSplits(size_t first, size_t end) {
  const int64_t at_once = std::max<int64_t>(1, RowsAtOnce() / shape_.batch);
  decides_split_ = rows();
  for (int64_t t = 0; t < shape_.steps; t += at_once) {
    const RowRange steps{t, std::min(at_once, shape_.steps - t), shape_.ragged};
    for (size_t g = first; g < end; ++g) {
      if (IsProduct(graph_.groups[g].stages[0])) EnqueueGroup(g, steps, t > 0);
    }
  }
  decides_split_ = 0;
  for (size_t g = first; g < end; ++g) {
    if (!IsProduct(graph_.groups[g].stages[0])) EnqueueGroup(g, AllSteps(), false);
  }
}

}  // namespace turbolstm::cuda
