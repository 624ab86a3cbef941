#include "ops/persistent_loop/tile_cuda.h"

#include <algorithm>
#include <cmath>

#include "ops/persistent_loop/device_code_cuda.h"

namespace turbolstm::cuda {
namespace {

// Bytes of a row that the lanes of a tensor core's product load at once.
constexpr int64_t kBlockBytes = 64;
// Registers of a thread for weights, in units of 16 bytes, at most.
constexpr int64_t kMostHeld = 16;

// Seconds, fitted to what benchmarks/persistent_loops prints on an H200.
constexpr double kFirstTurn = 0.9e-6;
constexpr double kFurtherTurn = 0.53e-6;
constexpr double kMultiplyByte = 1.2e-11;  // of weights, by 16 rows
constexpr double kReadFirstByte = 7e-12;   // of x, in the first turn
constexpr double kReadByte = 3e-12;
constexpr double kComputeUnit = 1.2e-8;  // of a block
constexpr double kTwoTiles = 1.75;       // times one
// Likewise, of a product and a program a step. A side: the root of the elements of the weights.
constexpr double kTwoKernels = 4.2e-6;
constexpr double kWeightSide = 1.25e-9;
constexpr double kSequenceSide = 1.1e-11;  // for each sequence
constexpr double kWideOperand = 1.5;       // tf32: times 16 bits

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Columns of v in a block of threads.
int64_t Width(const LoopStep& step, const LoopTile& tile) {
  return tile.units * static_cast<int64_t>(step.products.size());
}

int64_t CarriedBytes(const LoopStep& step, const LoopTile& tile) {
  const auto carried = std::count_if(step.carried.begin(), step.carried.end(),
                                     [](int64_t output) { return output >= 0; });
  return carried * tile.tiles * kTileRows * tile.units * int64_t{sizeof(float)};
}

// Tiles that may take a turn: two pay where a unit has one column of the product, as in backward
// loops; of wider products the sums of two do not fit into registers.
int64_t MostTogether(const LoopStep& step, int64_t all_tiles) {
  return step.products.size() == 1 && all_tiles > 1 ? 2 : 1;
}

// As many as there are registers for: each sum waits for what it is added to.
int64_t MostChains(const LoopStep& step, const LoopTile& tile) {
  const int64_t column_warps = tile.warps / kInnerWarps;
  const int64_t sums = tile.together * CeilDiv(Width(step, tile) / 8, column_warps);
  return sums == 1 ? 4 : sums <= 4 ? 2 : 1;
}

// What a block keeps, and whether there is room for it.
bool PlaceInShared(const LoopStep& step, int64_t shared_limit, LoopTile* tile) {
  const int64_t width = Width(step, *tile);
  const int64_t blocks = InnerBlocks(step, *tile);
  const int64_t fragments =
      CeilDiv(blocks, kInnerWarps) * CeilDiv(width / 8, tile->warps / kInnerWarps);
  tile->held = tile->warps == 8 && fragments <= kMostHeld;
  const int64_t sums = kInnerWarps * kTileRows * SumStride(width) * int64_t{sizeof(float)};
  tile->shared_bytes =
      (tile->held ? 0 : width * blocks * kBlockBytes) +
      tile->together * (sums + 2 * InputBytes(step, *tile) + OutputBytes(step, *tile)) +
      CarriedBytes(step, *tile);
  return tile->shared_bytes <= shared_limit;
}

}  // namespace

int64_t InnerBlocks(const LoopStep& step, const LoopTile& tile) {
  const auto parts_of_x = std::count_if(step.x_columns.begin(), step.x_columns.end(),
                                        [](int64_t column) { return column >= 0; });
  const int64_t inner = parts_of_x * tile.parts * tile.units;
  return CeilDiv(inner * static_cast<int64_t>(SizeOf(step.operand)), kBlockBytes);
}

// Rows begin 8 or 24 banks apart, which suits both who writes and who reads.
int64_t SumStride(int64_t width) {
  return width % 16 == 0 ? width + 8 : width;
}

bool IsStaged(const LoopStep& step, size_t input) {
  return step.program.program.inputs[input] == InputKind::kElement && step.carried[input] < 0 &&
         step.inputs[input].kind == RowKind::kStep &&
         std::none_of(step.products.begin(), step.products.end(), [&](const ProductInput& product) {
           return product.input == input && !product.reads;
         });
}

// What is held for a few steps only is read by the loop alone, and that by who wrote it.
bool IsStored(const LoopStep& step, size_t output) {
  return step.outputs[output].period == 0;
}

int64_t InputBytes(const LoopStep& step, const LoopTile& tile) {
  int64_t bytes = 0;
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (IsStaged(step, i)) bytes += static_cast<int64_t>(SizeOf(step.program.inputs[i]));
  }
  return bytes * kTileRows * tile.units;
}

int64_t OutputBytes(const LoopStep& step, const LoopTile& tile) {
  int64_t bytes = 0;
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    if (IsStored(step, i)) bytes += static_cast<int64_t>(SizeOf(OutputType(step, i)));
  }
  return bytes * kTileRows * tile.units;
}

// The tiles of a turn wait for x, read it, and multiply it; of the first turn, all latencies show.
double PersistentCost(const LoopStep& step, const LoopTile& tile) {
  const auto row = static_cast<double>(InnerBlocks(step, tile) * kBlockBytes);
  const double multiplying = kMultiplyByte * row * static_cast<double>(Width(step, tile));
  const double reading = row * kTileRows;
  const double share = tile.together == 1 ? 1 : kTwoTiles;
  const double first = kFirstTurn + share * (multiplying + kReadFirstByte * reading +
                                             kComputeUnit * static_cast<double>(tile.units));
  const double further = kFurtherTurn + share * (multiplying + kReadByte * reading);
  return first + further * static_cast<double>(tile.tiles / tile.together - 1);
}

double StepwiseCost(const LoopStep& step, int64_t batch) {
  const double size = std::sqrt(static_cast<double>(step.inner * step.columns));
  const double wide = SizeOf(step.operand) > 2 ? kWideOperand : 1;
  return wide *
         (kTwoKernels + kWeightSide * size + kSequenceSide * size * static_cast<double>(batch));
}

std::vector<LoopTile> Tiles(const LoopStep& step, int64_t batch, int64_t processors,
                            int64_t shared_limit, int64_t chains) {
  std::vector<LoopTile> tiles;
  const int64_t all_tiles = CeilDiv(batch, kTileRows);
  for (const int64_t units : {8, 16, 32}) {
    for (const int64_t together : {1, 2}) {
      LoopTile tile;
      tile.units = units;
      tile.warps = std::max<int64_t>(8, units / 2);
      tile.parts = CeilDiv(step.units, units);
      tile.together = together;
      const int64_t turns = CeilDiv(all_tiles, together);
      if (tile.parts > processors || together > MostTogether(step, all_tiles)) continue;
      tile.tiles = together * CeilDiv(turns, std::min(turns, processors / tile.parts));
      tile.groups = CeilDiv(all_tiles, tile.tiles);
      tile.exchange_bytes =
          tile.groups * tile.tiles * kSlots * InnerBlocks(step, tile) * kTileRows * kBlockBytes;
      tile.chains = chains > 0 ? chains : MostChains(step, tile);
      tile.carry_bytes = tile.parts * tile.groups * CarriedBytes(step, tile);
      if (PlaceInShared(step, shared_limit, &tile)) tiles.push_back(tile);
    }
  }
  return tiles;
}

LoopTile ChooseTile(const LoopStep& step, int64_t batch, int64_t processors, int64_t shared_limit,
                    int64_t chains) {
  const std::vector<LoopTile> tiles = Tiles(step, batch, processors, shared_limit, chains);
  const auto best =
      std::min_element(tiles.begin(), tiles.end(), [&](const LoopTile& a, const LoopTile& b) {
        return PersistentCost(step, a) < PersistentCost(step, b);
      });
  return best == tiles.end() ? LoopTile{} : *best;
}

}  // namespace turbolstm::cuda
