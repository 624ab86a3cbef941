#include "ops/phased_loop/phased_tile_cuda.h"

#include <algorithm>
#include <cmath>

#include "ops/persistent_loop/device_code_cuda.h"
#include "ops/persistent_loop/tile_cuda.h"

namespace turbolstm::cuda {
namespace {

constexpr int64_t kBlockBytes = 64;  // of a row of x, that the lanes of a product load at once
constexpr int64_t kChunkBytes = 16;
constexpr int64_t kMostTiles = 4;  // whose values fit into registers

// Seconds, from what loops with one product take (tile_cuda.cpp).
constexpr double kExchange = 1.3e-6;
constexpr double kFurtherTile = 0.35e-6;
constexpr double kMultiplyByte = 1.2e-11;
constexpr double kPiecesMultiply = 1.5;  // times others
constexpr double kKernel = 1.8e-6;
constexpr double kProductKernel = 3e-6;
constexpr double kProductElement = 1.2e-15;  // of the weights, for a sequence

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

int64_t Width(const PhasedTile& tile, const PhasedProduct& product) {
  return tile.units * std::ssize(product.results);
}

int64_t Blocks(const PhasedStep& step, const PhasedTile& tile, const PhasedProduct& product) {
  const int64_t inner = std::ssize(product.x) * tile.parts * tile.units;
  return CeilDiv(inner * static_cast<int64_t>(SizeOf(step.operand)), kBlockBytes);
}

template <typename Visit>
void ForEachProduct(const PhasedStep& step, Visit visit) {
  for (const auto& phase : step.phases) {
    if (const auto* product = std::get_if<PhasedProduct>(&phase)) visit(*product);
  }
}

bool Place(const PhasedStep& step, int64_t shared_limit, PhasedTile* tile) {
  int64_t exchange = 0;
  for (size_t i = 0; i < step.phases.size(); ++i) exchange += ExchangeBytes(step, *tile, i);
  tile->exchange_bytes = tile->groups * tile->tiles * kSlots * exchange;
  tile->shared_bytes = tile->tiles * kPhasedWarps * kTileRows * PhasedSumStride(step, *tile) *
                       int64_t{sizeof(float)};
  ForEachProduct(step, [&](const PhasedProduct& product) {
    tile->shared_bytes += WeightBytes(step, *tile, product);
  });
  return tile->shared_bytes <= shared_limit;
}

}  // namespace

int64_t ExchangeBytes(const PhasedStep& step, const PhasedTile& tile, size_t phase) {
  if (const auto* product = std::get_if<PhasedProduct>(&step.phases[phase])) {
    return Blocks(step, tile, *product) * kBlockBytes * kTileRows;
  }
  const bool sum = std::holds_alternative<PhasedSum>(step.phases[phase]);
  return sum ? tile.parts * kTileRows * kChunkBytes : 0;
}

int64_t WeightBytes(const PhasedStep& step, const PhasedTile& tile, const PhasedProduct& product) {
  return Width(tile, product) * Blocks(step, tile, product) * kBlockBytes;
}

int64_t PhasedSumStride(const PhasedStep& step, const PhasedTile& tile) {
  int64_t stride = 0;
  ForEachProduct(step, [&](const PhasedProduct& product) {
    stride = std::max(stride, SumStride(Width(tile, product)));
  });
  return stride;
}

PhasedTile ChoosePhasedTile(const PhasedStep& step, int64_t batch, int64_t processors,
                            int64_t shared_limit) {
  PhasedTile best;
  const int64_t all_tiles = CeilDiv(batch, kTileRows);
  for (const int64_t units : {8, 16}) {
    for (int64_t most = kMostTiles; most > 0; --most) {
      PhasedTile tile;
      tile.units = units;
      tile.parts = CeilDiv(step.units, units);
      if (tile.parts > processors) continue;
      const int64_t groups = std::min(all_tiles, processors / tile.parts);
      tile.tiles = std::min(most, CeilDiv(all_tiles, groups));
      tile.groups = std::min(groups, CeilDiv(all_tiles, tile.tiles));
      tile.rounds = CeilDiv(all_tiles, tile.groups * tile.tiles);
      if (!Place(step, shared_limit, &tile)) continue;
      if (best.parts == 0 || PhasedCost(step, tile) < PhasedCost(step, best)) best = tile;
    }
  }
  return best;
}

double PhasedCost(const PhasedStep& step, const PhasedTile& tile) {
  double seconds = 0;
  for (size_t i = 0; i < step.phases.size(); ++i) {
    if (ExchangeBytes(step, tile, i) == 0) continue;
    seconds += kExchange + kFurtherTile * static_cast<double>(tile.tiles - 1);
    if (const auto* product = std::get_if<PhasedProduct>(&step.phases[i])) {
      seconds += (step.in_pieces ? kPiecesMultiply : 1) * kMultiplyByte *
                 static_cast<double>(tile.tiles * WeightBytes(step, tile, *product));
    }
  }
  return seconds * static_cast<double>(tile.rounds);
}

double KernelPerPhaseCost(const PhasedStep& step, int64_t batch) {
  double seconds = 0;
  for (const auto& phase : step.phases) {
    seconds += kKernel;
    if (const auto* product = std::get_if<PhasedProduct>(&phase)) {
      const int64_t weights =
          std::ssize(product->x) * std::ssize(product->results) * step.units * step.units;
      seconds += kProductKernel + kProductElement * static_cast<double>(weights * batch);
    }
  }
  return seconds;
}

}  // namespace turbolstm::cuda
