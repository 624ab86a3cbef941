// The tile-wise vector interpreter: for each tile of elements every instruction runs over the whole
// tile, so that the cost of decoding it is shared by hundreds of elements and the intermediate
// values never leave the first-level cache.

#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "ops/pointwise/tile_code.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/pointwise/interpreter.cpp"
#include <hwy/foreach_target.h>
// clang-format off: after foreach_target.h
#include <hwy/highway.h>

#include "ops/pointwise/vector_ops-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace turbolstm {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kTile = PointwiseTileCode::kTile;
using Step = PointwiseTileCode::Step;
using StepFunction = void (*)(const Step&, const float* const* registers, float* to, size_t count);

// `count` is a multiple of the vector's lanes.
template <PointwiseOp op>
void RunStep(const Step& step, const float* const* registers, float* to, size_t count) {
  const VectorTag d;
  const float* a = registers[step.a];
  const float* b = registers[step.b];
  const float* c = registers[step.c];
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    if constexpr (OperandCount(op) == 1) {
      hn::Store(Apply<op>(d, hn::LoadU(d, a + i)), d, to + i);
    } else if constexpr (OperandCount(op) == 2) {
      hn::Store(Apply<op>(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, to + i);
    } else {
      hn::Store(Apply<op>(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i), hn::LoadU(d, c + i)), d,
                to + i);
    }
  }
}

template <int... ops>
constexpr std::array<StepFunction, sizeof...(ops)> StepTable(std::integer_sequence<int, ops...>) {
  return {&RunStep<static_cast<PointwiseOp>(ops)>...};
}

// `count` elements of a row into a tile, and back.
void CopyIn(const PointwiseSlot& slot, int64_t r, int64_t j, int64_t count, float* to) {
  if (slot.dtype == DType::kFloat32) {
    std::memcpy(to, static_cast<const float*>(slot.data) + r * slot.row_stride + j,
                static_cast<size_t>(count) * sizeof(float));
    return;
  }
  const VectorTag d;
  const RowPointer from(slot, r);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(from.Load(d, j + i, hn::Lanes(d)), d, to + i);
  const auto rest = static_cast<size_t>(count - i);
  if (rest > 0) StorePart(d, from.Load(d, j + i, rest), to + i, rest);
}

void CopyOut(const float* from, const PointwiseSlot& slot, int64_t r, int64_t j, int64_t count) {
  if (slot.dtype == DType::kFloat32) {
    std::memcpy(static_cast<float*>(slot.data) + r * slot.row_stride + j, from,
                static_cast<size_t>(count) * sizeof(float));
    return;
  }
  const VectorTag d;
  const RowPointer to(slot, r);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) to.Store(d, hn::LoadU(d, from + i), j + i, hn::Lanes(d));
  const auto rest = static_cast<size_t>(count - i);
  if (rest > 0) to.Store(d, LoadPart(d, from + i, rest), j + i, rest);
}

// Rows r to r + rows and units j to j + width, packed row after row without gaps.
struct Tile {
  int64_t r, rows, j, width;
};

class TileRunner {
 public:
  TileRunner(const PointwiseTileCode& code, const PointwiseArgs& args, float* scratch)
      : code_(code),
        args_(args),
        width_(std::min(args.n, kTile)),
        rows_(std::clamp<int64_t>(kTile / width_, 1, args.rows)),
        scratch_(scratch),
        registers_(code.register_count) {
    for (int32_t i = 0; i < code.register_count; ++i) registers_[i] = scratch + i * kTile;
  }

  void Run() {
    FillUniform();
    for (int64_t j = 0; j < args_.n; j += width_) {
      const int64_t width = std::min(width_, args_.n - j);
      for (int64_t r = 0; r < args_.rows; r += rows_) {
        RunTile({r, std::min(rows_, args_.rows - r), j, width});
      }
    }
  }

 private:
  float* Scratch(size_t index) { return scratch_ + static_cast<int64_t>(index) * kTile; }

  // Whole vectors of one row of floats can be read where they lie.
  bool ReadsInPlace(size_t input, const Tile& tile) const {
    const auto lanes = static_cast<int64_t>(hn::Lanes(VectorTag()));
    return tile.rows == 1 && tile.width % lanes == 0 && !code_.input_is_output[input] &&
           args_.inputs[input].dtype == DType::kFloat32;
  }

  void FillUniform() {
    for (size_t i = 0; i < code_.inputs.size(); ++i) {
      if (code_.inputs[i] != InputKind::kScalar) continue;
      std::fill_n(Scratch(i), kTile, ScalarAt(args_.inputs[i], 0));
    }
    for (size_t i = 0; i < code_.constants.size(); ++i) {
      std::fill_n(Scratch(code_.inputs.size() + i), kTile, code_.constants[i]);
    }
  }

  void BindElements(size_t input, const Tile& tile) {
    const PointwiseSlot& slot = args_.inputs[input];
    if (ReadsInPlace(input, tile)) {
      registers_[input] = static_cast<float*>(slot.data) + tile.r * slot.row_stride + tile.j;
      return;
    }
    registers_[input] = Scratch(input);
    for (int64_t k = 0; k < tile.rows; ++k) {
      CopyIn(slot, tile.r + k, tile.j, tile.width, Scratch(input) + k * tile.width);
    }
  }

  // The same for all rows, so the first tile of a column of tiles leaves it for the others.
  void BindRowVector(size_t input, const Tile& tile) {
    if (tile.r != 0) return;
    for (int64_t k = 0; k < tile.rows; ++k) {
      CopyIn(args_.inputs[input], 0, tile.j, tile.width, Scratch(input) + k * tile.width);
    }
  }

  void BindColumn(size_t input, const Tile& tile) {
    const PointwiseSlot& slot = args_.inputs[input];
    for (int64_t k = 0; k < tile.rows; ++k) {
      std::fill_n(Scratch(input) + k * tile.width, tile.width,
                  ScalarAt(slot, (tile.r + k) * slot.row_stride));
    }
  }

  void RunTile(const Tile& tile) {
    static constexpr auto kTable = StepTable(std::make_integer_sequence<int, kPointwiseOpCount>());
    for (size_t i = 0; i < code_.inputs.size(); ++i) {
      if (code_.inputs[i] == InputKind::kElement) BindElements(i, tile);
      if (code_.inputs[i] == InputKind::kRowVector) BindRowVector(i, tile);
      if (code_.inputs[i] == InputKind::kColumn) BindColumn(i, tile);
    }
    const size_t count =
        hwy::RoundUpTo(static_cast<size_t>(tile.rows * tile.width), hn::Lanes(VectorTag()));
    for (const Step& step : code_.steps) {
      kTable[static_cast<size_t>(step.op)](step, registers_.data(), Scratch(step.to), count);
    }
    for (size_t i = 0; i < code_.outputs.size(); ++i) {
      const float* from = registers_[code_.outputs[i]];
      for (int64_t k = 0; k < tile.rows; ++k) {
        CopyOut(from + k * tile.width, args_.outputs[i], tile.r + k, tile.j, tile.width);
      }
    }
  }

  const PointwiseTileCode& code_;
  const PointwiseArgs& args_;
  const int64_t width_;
  const int64_t rows_;
  float* const scratch_;
  std::vector<float*> registers_;
};

}  // namespace

void RunTiles(const PointwiseTileCode& code, const PointwiseArgs& args, float* scratch) {
  TileRunner(code, args, scratch).Run();
}

}  // namespace HWY_NAMESPACE
}  // namespace turbolstm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turbolstm {
namespace {

// Scratch of this thread, grown to what the largest program needs. Zero at first, because the lanes
// beyond the last element are computed too.
float* Scratch(size_t floats) {
  thread_local size_t capacity = 0;
  thread_local hwy::AlignedFreeUniquePtr<float[]> memory;
  if (capacity < floats) {
    memory = hwy::AllocateAligned<float>(floats);
    std::fill_n(memory.get(), floats, 0.0f);
    capacity = floats;
  }
  return memory.get();
}

}  // namespace

HWY_EXPORT(RunTiles);

void RunPointwiseTiles(const PointwiseTileCode& code, const PointwiseArgs& args) {
  const size_t floats = static_cast<size_t>(code.register_count) * PointwiseTileCode::kTile;
  HWY_DYNAMIC_DISPATCH(RunTiles)(code, args, Scratch(floats));
}

}  // namespace turbolstm
#endif
