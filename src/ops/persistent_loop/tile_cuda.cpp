#include "ops/persistent_loop/tile_cuda.h"

#include <algorithm>
#include <cmath>

#include "ops/persistent_loop/device_code_cuda.h"

namespace turbolstm::cuda {
namespace {

// Bytes of a row that the lanes of a tensor core's product load at once.
constexpr int64_t kBlockBytes = 64;
// Registers of a multiprocessor, and those of a thread for what is neither weights, x nor sums.
constexpr int64_t kRegisters = 65536;
constexpr int64_t kOtherRegisters = 40;
constexpr int64_t kPieceRegisters = 24;  // besides, for products of pieces
// Registers of a thread for weights, in units of 16 bytes, at most, in a cluster.
constexpr int64_t kMostHeld = 16;
constexpr int64_t kMostInCluster = 16;
constexpr int64_t kBarrierBytes = 8;
constexpr int64_t kMostElements = 256;  // of a tile in a cluster: more need too many registers
// From here on LoopTile::chains are of clusters.
constexpr int64_t kOrdersOfClusters = 100;

// Seconds, fitted to what benchmarks/persistent_loops prints on an H200.
// Of a step, and of each of its turns: of a turn itself, for what each warp multiplies, in products
// of 16 rows and 8 columns over 64 bytes, for each byte that all blocks together read of x, for
// each column of sums, and of waiting for the sums of other blocks. In a single turn all latencies
// show.
struct Rates {
  double step, turn, multiply, read, column, peers;
};
constexpr Rates kPlainSingle{1.2e-6, 0, 4.0e-8, 5.2e-14, 3e-10, 4.2e-7};
constexpr Rates kPlain{2.8e-7, 5.8e-7, 3.4e-8, 5.8e-14, 6.1e-9, 5.3e-7};
constexpr Rates kRolesSingle{1.1e-6, 0, 3.3e-8, 7.3e-14, 1.0e-9, 6.4e-7};
constexpr Rates kRoles{4.2e-7, 2.6e-7, 2.5e-8, 5.2e-14, 3.9e-9, 3.0e-7};
constexpr double kStart = 3e-6;      // of a launch
constexpr double kLoadByte = 9e-11;  // of a block's weights
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

// Columns of v that a block multiplies.
int64_t Width(const LoopStep& step, const LoopTile& tile) {
  return tile.splits * tile.units * static_cast<int64_t>(step.products.size());
}

int64_t CarriedBytes(const LoopStep& step, const LoopTile& tile) {
  const auto carried = std::count_if(step.carried.begin(), step.carried.end(),
                                     [](int64_t output) { return output >= 0; });
  return carried * tile.tiles * tile.tile_rows * tile.units * int64_t{sizeof(float)};
}

// Tiles of 8 columns that a warp multiplies.
int64_t WarpTiles(const LoopStep& step, const LoopTile& tile) {
  return CeilDiv(Width(step, tile) / 8, tile.warps / kInnerWarps);
}

// As many as there are registers for: each sum waits for what it is added to.
int64_t MostChains(const LoopStep& step, const LoopTile& tile) {
  const int64_t sums = tile.together * WarpTiles(step, tile);
  return sums == 1 ? 4 : sums <= 4 ? 2 : 1;
}

// Pieces of weights for which a thread has registers beside its sums and its blocks of x.
int64_t RoomForPieces(const LoopStep& step, const LoopTile& tile) {
  const int64_t sums = tile.together * WarpTiles(step, tile) * tile.chains;
  const int64_t others = kOtherRegisters + (step.in_pieces ? kPieceRegisters : 0) + 4 * sums +
                         8 * tile.together * tile.at_once;
  return std::max<int64_t>(0, (RegistersOf(tile).multiplier - others) / 4);
}

int64_t SharedBytes(const LoopStep& step, const LoopTile& tile) {
  const bool roles = tile.finishing > 0;
  const int64_t weights = tile.warps * 32 * 16 * (Pieces(step, tile) - tile.held);
  const int64_t sums =
      kInnerWarps * kTileRows * SumStride(Width(step, tile)) * int64_t{sizeof(float)};
  const int64_t moved = (roles ? InputPlaces(tile) : 2) * InputBytes(step, tile) +
                        (roles ? 2 : 1) * OutputBytes(step, tile);
  return weights + tile.together * ((roles ? 2 : 1) * sums + moved) + CarriedBytes(step, tile);
}

// What a block keeps, and whether there is room for it.
bool PlaceWeights(const LoopStep& step, int64_t shared_limit, LoopTile* tile) {
  for (const int64_t ahead : {2, 1}) {
    tile->fetch_ahead = ahead;
    for (const int64_t at_once : {8, 4, 2}) {
      tile->at_once = std::min(WarpBlocks(step, *tile), at_once / tile->together);
      tile->held = std::min(Pieces(step, *tile), RoomForPieces(step, *tile));
      tile->shared_bytes = SharedBytes(step, *tile);
      const bool fits = tile->shared_bytes <= shared_limit;
      if (fits && (at_once < 8 || tile->held == Pieces(step, *tile))) return true;
    }
  }
  return false;
}

// Of a tile, rounded up so that few kernels serve all small batches.
int64_t RowsThere(int64_t batch) {
  int64_t rows = 1;
  while (rows < batch && rows < kTileRows) rows *= 2;
  return rows;
}

// Two tiles take a turn, and blocks split the inner axis, where a unit has one column of the
// product, as in backward loops: there sums are few, and x is long. Forward loops are not split, so
// that their bits depend on chains alone. Roles, which beat more units a block, need registers to
// go from warp to warp, and room for two turns; products of pieces leave them none.
bool IsSensible(const LoopStep& step, const LoopTile& tile, const LoopRoom& room) {
  constexpr int64_t kHopperBytes = 200 * 1024;
  const bool narrow = step.products.size() == 1;
  if (step.in_pieces && (tile.splits > 1 || tile.finishing > 0)) return false;
  if (tile.together > 1 && (!narrow || tile.units > 16 || tile.splits > 1 || tile.finishing > 0)) {
    return false;
  }
  if (tile.splits > 1 && (!narrow || !step.x.adjoint || tile.units != 16)) return false;
  const bool roles_work = room.clusters && room.shared_limit >= kHopperBytes && !step.in_pieces;
  return roles_work ? tile.units <= 16 : tile.finishing == 0;
}

// How many blocks and tiles there are; false where not all blocks run at once.
bool DealOut(const LoopStep& step, int64_t batch, int64_t processors, LoopTile* tile) {
  const int64_t all_tiles = CeilDiv(batch, kTileRows);
  const int64_t turns = CeilDiv(all_tiles, tile->together);
  tile->parts = CeilDiv(step.units, tile->units * tile->splits) * tile->splits;
  if (tile->parts > processors || tile->together > all_tiles) return false;
  tile->tiles = tile->together * CeilDiv(turns, std::min(turns, processors / tile->parts));
  tile->groups = CeilDiv(all_tiles, tile->tiles);
  tile->rows = RowsThere(batch);
  tile->exchange_bytes = tile->groups * tile->tiles * StepSlots(*tile) * SlotBytes(step, *tile);
  tile->carry_bytes = tile->parts * tile->groups * CarriedBytes(step, *tile);
  return true;
}

void AddMemoryTile(const LoopStep& step, int64_t batch, const LoopRoom& room, int64_t chains,
                   LoopTile tile, std::vector<LoopTile>* tiles) {
  const bool roles = tile.finishing > 0;
  tile.warps = roles ? 8 : std::max<int64_t>(8, tile.units / 2);
  tile.chains = chains > 0 && chains < kOrdersOfClusters ? chains : MostChains(step, tile);
  if (IsSensible(step, tile, room) && DealOut(step, batch, room.processors, &tile) &&
      PlaceWeights(step, room.shared_limit, &tile)) {
    tiles->push_back(tile);
  }
}

void AddMemoryTiles(const LoopStep& step, int64_t batch, const LoopRoom& room, int64_t chains,
                    std::vector<LoopTile>* tiles) {
  for (const int64_t units : {8, 16, 32}) {
    for (const int64_t splits : {1, 2, 4}) {
      for (const int64_t together : {1, 2}) {
        for (const bool roles : {false, true}) {
          LoopTile tile;
          tile.units = units;
          tile.finishing = roles ? units / 2 : 0;
          tile.splits = splits;
          tile.together = together;
          AddMemoryTile(step, batch, room, chains, tile, tiles);
        }
      }
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
      if (tile.parts > kMostInCluster) continue;
      const int64_t clusters = MostClusters(tile.parts, room.processors);
      if (clusters == 0 || !GiveWarps(step, &tile)) continue;
      tile.held = ClusterFragments(step, tile);
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

RoleRegisters RegistersOf(const LoopTile& tile) {
  if (tile.finishing == 8) return {152, 64, 48};
  if (tile.finishing == 4) return {192, 88, 40};
  return {kRegisters / BlockThreads(tile) / 8 * 8, 0, 0};
}

int64_t StepSlots(const LoopTile& tile) {
  return tile.splits == 1 ? kSlots : kSplitSlots;
}

int64_t SlotBytes(const LoopStep& step, const LoopTile& tile) {
  const int64_t sums =
      tile.splits == 1 ? 0 : tile.parts * kTileRows * Width(step, tile) * int64_t{sizeof(float)};
  return InnerBlocks(step, tile) * kTileRows * kBlockBytes + sums;
}

int64_t InputPlaces(const LoopTile& tile) {
  return 2 + tile.fetch_ahead + DeferredTurns(tile);
}

int64_t DeferredTurns(const LoopTile& tile) {
  return tile.splits > 1 && tile.tiles / tile.together > 2 ? 1 : 0;
}

bool IsGated(const LoopTile& tile) {
  constexpr int64_t kFewRows = 4;
  return tile.finishing > 0 && tile.tiles == tile.together && tile.rows > kFewRows;
}

int64_t WarpBlocks(const LoopStep& step, const LoopTile& tile) {
  return CeilDiv(CeilDiv(InnerBlocks(step, tile), tile.splits), kInnerWarps);
}

int64_t Pieces(const LoopStep& step, const LoopTile& tile) {
  return WarpBlocks(step, tile) * WarpTiles(step, tile);
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

double PersistentCost(const LoopStep& step, const LoopTile& tile) {
  if (tile.exchange != Exchange::kMemory) return ClusterCost(step, tile);
  const bool single = tile.tiles == tile.together;
  const Rates& rates =
      tile.finishing == 0 ? (single ? kPlainSingle : kPlain) : (single ? kRolesSingle : kRoles);
  const auto together = static_cast<double>(tile.together);
  const auto row = static_cast<double>(InnerBlocks(step, tile) * kBlockBytes / tile.splits);
  const double read = row * together * static_cast<double>(tile.rows * tile.parts * tile.groups);
  const auto products = static_cast<double>(Pieces(step, tile) * tile.warps) / kInnerWarps;
  const double pieces = step.in_pieces ? kPiecesMultiply : 1;
  const double turn = rates.turn + pieces * rates.multiply * together * products +
                      rates.read * read +
                      rates.column * together * static_cast<double>(Width(step, tile)) +
                      (tile.splits > 1 ? rates.peers : 0);
  return rates.step + turn * static_cast<double>(tile.tiles / tile.together);
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
