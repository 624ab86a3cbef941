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
constexpr int64_t kMostInCluster = 16;
constexpr int64_t kBarrierBytes = 8;
constexpr int64_t kMostElements = 256;  // of a tile in a cluster: more need too many registers
// From here on LoopTile::chains are of clusters.
constexpr int64_t kOrdersOfClusters = 100;

// Seconds, fitted to what benchmarks/persistent_loops prints on an H200.
constexpr double kFirstTurn = 0.9e-6;
constexpr double kFurtherTurn = 0.53e-6;
constexpr double kMultiplyByte = 1.2e-11;  // of weights, by 16 rows
constexpr double kReadFirstByte = 7e-12;   // of x, in the first turn
constexpr double kReadByte = 3e-12;
constexpr double kComputeUnit = 1.2e-8;  // of a block
constexpr double kTwoTiles = 1.75;       // times one
constexpr double kStart = 3e-6;          // of a launch
constexpr double kLoadByte = 9e-11;      // of a block's weights
constexpr double kClusterTurn = 0.9e-6;
constexpr double kFurtherClusterTurn = 0.45e-6;
constexpr double kClusterProduct = 2.1e-12;  // of an element of the weights, by a row
// Likewise, of a product and a program a step. A side: the root of the elements of the weights.
constexpr double kTwoKernels = 4.2e-6;
constexpr double kWeightSide = 1.25e-9;
constexpr double kSequenceSide = 1.1e-11;  // for each sequence
constexpr double kWideOperand = 1.5;       // tf32: times 16 bits
constexpr double kWideProduct = 1.3;       // likewise, of a cluster
constexpr double kPiecesStepwise = 2.5;    // products of pieces: times 16 bits
constexpr double kPiecesMultiply = 1.5;    // likewise, of a byte of weights

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Elements of x of a unit.
int64_t PartsOfX(const LoopStep& step) {
  return std::count_if(step.x_columns.begin(), step.x_columns.end(),
                       [](int64_t column) { return column >= 0; });
}

// Columns of v in a block of threads.
int64_t Width(const LoopStep& step, const LoopTile& tile) {
  return tile.units * static_cast<int64_t>(step.products.size());
}

int64_t CarriedBytes(const LoopStep& step, const LoopTile& tile) {
  const auto carried = std::count_if(step.carried.begin(), step.carried.end(),
                                     [](int64_t output) { return output >= 0; });
  return carried * tile.tiles * tile.tile_rows * tile.units * int64_t{sizeof(float)};
}

// Tiles that may take a turn: two pay where a unit has one column of the product, as in backward
// loops; of wider products, and of blocks with more warps, the sums of two do not fit into
// registers.
int64_t MostTogether(const LoopStep& step, const LoopTile& tile, int64_t all_tiles) {
  return step.products.size() == 1 && tile.warps == kInnerWarps && all_tiles > 1 ? 2 : 1;
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

void AddMemoryTiles(const LoopStep& step, int64_t batch, const LoopRoom& room, int64_t chains,
                    std::vector<LoopTile>* tiles) {
  const int64_t all_tiles = CeilDiv(batch, kTileRows);
  for (const int64_t units : {8, 16, 32}) {
    for (const int64_t together : {1, 2}) {
      LoopTile tile;
      tile.units = units;
      tile.warps = std::max<int64_t>(8, units / 2);
      tile.parts = CeilDiv(step.units, units);
      tile.together = together;
      const int64_t turns = CeilDiv(all_tiles, together);
      if (tile.parts > room.processors || together > MostTogether(step, tile, all_tiles)) {
        continue;
      }
      tile.tiles = together * CeilDiv(turns, std::min(turns, room.processors / tile.parts));
      tile.groups = CeilDiv(all_tiles, tile.tiles);
      tile.exchange_bytes =
          tile.groups * tile.tiles * kSlots * InnerBlocks(step, tile) * kTileRows * kBlockBytes;
      tile.chains = chains > 0 && chains < kOrdersOfClusters ? chains : MostChains(step, tile);
      tile.carry_bytes = tile.parts * tile.groups * CarriedBytes(step, tile);
      if (PlaceInShared(step, room.shared_limit, &tile)) tiles->push_back(tile);
    }
  }
}

// Registers of a thread for weights, in units of 16 bytes, in a cluster.
int64_t ClusterFragments(const LoopStep& step, const LoopTile& tile) {
  const int64_t blocks = BlocksOfX(step, tile);
  if (tile.exchange == Exchange::kScatter) {
    return blocks * CeilDiv(CeilDiv(tile.parts * tile.units, 32), tile.warps) * 4;
  }
  return CeilDiv(blocks, tile.sharing_warps) *
         CeilDiv(CeilDiv(Width(step, tile), 16), tile.warps / tile.sharing_warps) * 2;
}

int64_t ClusterSharedBytes(const LoopStep& step, const LoopTile& tile) {
  constexpr int64_t kPlaces = 3;  // for inputs, and for a flag for each row
  const int64_t moved = kPlaces * (InputBytes(step, tile) + tile.tile_rows * 4) +
                        OutputBytes(step, tile) + CarriedBytes(step, tile);
  const int64_t products =
      tile.exchange == Exchange::kScatter
          ? 2 * BlocksOfX(step, tile) * tile.tile_rows * kBlockBytes
          : tile.sharing_warps * tile.tile_rows * ArrivalStride(step, tile) * 4;
  return moved + products + 2 * tile.tiles * (InboxBytes(step, tile) + kBarrierBytes);
}

// Warps along the inner axis with which the fewest bytes go through shared memory.
int64_t BestSharingWarps(const LoopStep& step, const LoopTile& tile) {
  const auto bytes = [&](int64_t sharing) {
    return tile.warps / sharing * BlocksOfX(step, tile) * kBlockBytes +
           2 * sharing * Width(step, tile) * 4;
  };
  int64_t best = 1;
  for (const int64_t sharing : {2, 4, 8}) {
    if (bytes(sharing) < bytes(best)) best = sharing;
  }
  return best;
}

// Clusters that run at once: some multiprocessors lie where no whole one fits.
int64_t MostClusters(int64_t size, int64_t processors) {
  return processors * 15 / 16 / size;
}

// As few warps as hold all weights in registers; false if there are none.
bool GiveWarps(const LoopStep& step, LoopTile* tile) {
  for (tile->warps = std::max<int64_t>(8, tile->units * tile->tile_rows / 32); tile->warps <= 16;
       tile->warps *= 2) {
    tile->sharing_warps = tile->exchange == Exchange::kScatter ? 1 : BestSharingWarps(step, *tile);
    if (ClusterFragments(step, *tile) <= kMostHeld) return true;
  }
  return false;
}

void AddClusterTiles(const LoopStep& step, int64_t batch, const LoopRoom& room,
                     std::vector<LoopTile>* tiles) {
  const auto products = static_cast<int64_t>(step.products.size());
  const bool scatters = products == 1 && PartsOfX(step) > 1 && !step.x.has_init;
  if (PartsOfX(step) > products && !scatters) return;
  for (const int64_t units : {16, 32}) {
    for (const int64_t rows : {8, 16}) {
      if (units * rows > kMostElements) continue;
      LoopTile tile;
      tile.exchange = scatters ? Exchange::kScatter : Exchange::kGather;
      tile.tile_rows = rows;
      tile.units = units;
      tile.parts = CeilDiv(step.units, units);
      tile.held = true;
      if (tile.parts > kMostInCluster) continue;
      const int64_t clusters = MostClusters(tile.parts, room.processors);
      if (clusters == 0 || !GiveWarps(step, &tile)) continue;
      const int64_t all_tiles = CeilDiv(batch, rows);
      tile.tiles = CeilDiv(all_tiles, std::min(all_tiles, clusters));
      tile.groups = CeilDiv(all_tiles, tile.tiles);
      tile.chains =
          kOrdersOfClusters * (scatters ? 2 : 1) + (scatters ? tile.parts : tile.sharing_warps);
      tile.carry_bytes = tile.parts * tile.groups * CarriedBytes(step, tile);
      tile.exchange_bytes = tile.parts * tile.groups * tile.tiles * InboxBytes(step, tile);
      tile.shared_bytes = ClusterSharedBytes(step, tile);
      if (tile.shared_bytes <= room.shared_limit) tiles->push_back(tile);
    }
  }
}

double ClusterCost(const LoopStep& step, const LoopTile& tile) {
  const int64_t columns =
      tile.exchange == Exchange::kScatter ? tile.parts * tile.units : Width(step, tile);
  const int64_t products = columns * PartsOfX(step) * UnitsOfX(tile) * tile.tile_rows;
  const double wide = SizeOf(step.operand) > 2 ? kWideProduct : 1;
  const double multiplying = wide * kClusterProduct * static_cast<double>(products);
  return kClusterTurn + multiplying +
         (kFurtherClusterTurn + multiplying) * static_cast<double>(tile.tiles - 1);
}

}  // namespace

int64_t UnitsOfX(const LoopTile& tile) {
  return tile.exchange == Exchange::kScatter ? tile.units : tile.parts * tile.units;
}

int64_t BlocksOfX(const LoopStep& step, const LoopTile& tile) {
  const int64_t elements = PartsOfX(step) * UnitsOfX(tile);
  return CeilDiv(elements * static_cast<int64_t>(SizeOf(step.operand)), kBlockBytes);
}

int64_t ArrivingBytes(const LoopStep& step, const LoopTile& tile) {
  const int64_t padded = tile.parts * tile.units;
  if (tile.exchange == Exchange::kScatter) return padded * int64_t{sizeof(float)};
  return PartsOfX(step) * padded * static_cast<int64_t>(SizeOf(step.operand));
}

int64_t InboxBytes(const LoopStep& step, const LoopTile& tile) {
  const int64_t row = tile.exchange == Exchange::kScatter
                          ? tile.parts * ArrivalStride(step, tile) * int64_t{sizeof(float)}
                          : BlocksOfX(step, tile) * kBlockBytes;
  return row * tile.tile_rows;
}

// So that both who writes and who reads meets different banks: rows begin 8 or 24 of them apart, or
// 4 or 20 where a lane writes a column of two rows.
int64_t ArrivalStride(const LoopStep& step, const LoopTile& tile) {
  return tile.exchange == Exchange::kScatter ? tile.units + 8 : Width(step, tile) + 4;
}

int64_t InnerBlocks(const LoopStep& step, const LoopTile& tile) {
  const int64_t inner = PartsOfX(step) * tile.parts * tile.units;
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
  return bytes * tile.tile_rows * tile.units;
}

int64_t OutputBytes(const LoopStep& step, const LoopTile& tile) {
  int64_t bytes = 0;
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    if (IsStored(step, i)) bytes += static_cast<int64_t>(SizeOf(OutputType(step, i)));
  }
  return bytes * tile.tile_rows * tile.units;
}

// The tiles of a turn wait for x, read it, and multiply it; of the first turn, all latencies show.
double PersistentCost(const LoopStep& step, const LoopTile& tile) {
  if (tile.exchange != Exchange::kMemory) return ClusterCost(step, tile);
  const auto row = static_cast<double>(InnerBlocks(step, tile) * kBlockBytes);
  const double multiplying = (step.in_pieces ? kPiecesMultiply : 1) * kMultiplyByte * row *
                             static_cast<double>(Width(step, tile));
  const double reading = row * kTileRows;
  const double share = tile.together == 1 ? 1 : kTwoTiles;
  const double first = kFirstTurn + share * (multiplying + kReadFirstByte * reading +
                                             kComputeUnit * static_cast<double>(tile.units));
  const double further = kFurtherTurn + share * (multiplying + kReadByte * reading);
  return first + further * static_cast<double>(tile.tiles / tile.together - 1);
}

double StartCost(const LoopStep& step, const LoopTile& tile) {
  const auto row = static_cast<double>(InnerBlocks(step, tile) * kBlockBytes);
  return kStart + kLoadByte * row * static_cast<double>(Width(step, tile));
}

double StepwiseCost(const LoopStep& step, int64_t batch) {
  const double size = std::sqrt(static_cast<double>(step.inner * step.columns));
  const double wide = step.in_pieces             ? kPiecesStepwise
                      : SizeOf(step.operand) > 2 ? kWideOperand
                                                 : 1;
  return wide *
         (kTwoKernels + kWeightSide * size + kSequenceSide * size * static_cast<double>(batch));
}

std::vector<LoopTile> Tiles(const LoopStep& step, int64_t batch, const LoopRoom& room,
                            int64_t chains) {
  std::vector<LoopTile> tiles;
  AddMemoryTiles(step, batch, room, chains, &tiles);
  // What a block holds in registers would be split into pieces there, and not fit any more.
  if (room.clusters && !step.in_pieces) AddClusterTiles(step, batch, room, &tiles);
  if (chains > 0) std::erase_if(tiles, [&](const LoopTile& tile) { return tile.chains != chains; });
  return tiles;
}

LoopTile ChooseTile(const LoopStep& step, int64_t batch, const LoopRoom& room, int64_t chains) {
  const std::vector<LoopTile> tiles = Tiles(step, batch, room, chains);
  const auto best =
      std::min_element(tiles.begin(), tiles.end(), [&](const LoopTile& a, const LoopTile& b) {
        return PersistentCost(step, a) < PersistentCost(step, b);
      });
  return best == tiles.end() ? LoopTile{} : *best;
}

}  // namespace turbolstm::cuda
