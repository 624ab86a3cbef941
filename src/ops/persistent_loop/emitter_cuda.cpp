#include "ops/persistent_loop/emitter_cuda.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "ops/persistent_loop/block_text_cuda.h"
#include "ops/persistent_loop/cluster_text_cuda.h"
#include "ops/persistent_loop/device_code_cuda.h"
#include "ops/persistent_loop/device_text_cuda.h"
#include "ops/persistent_loop/program_text_cuda.h"
#include "ops/pointwise/emitter_cuda.h"

namespace turbolstm::cuda {
namespace {

std::string_view ProductType(const LoopStep& step) {
  if (step.in_pieces) return "PiecesProduct";
  switch (step.operand) {
    case DType::kBFloat16:
      return "Bf16Product";
    case DType::kFloat16:
      return "Fp16Product";
    default:
      return "Tf32Product";
  }
}

template <typename Numbers>
std::string List(std::string_view name, const Numbers& numbers) {
  return fmt::format("__constant__ const int {}[] = {{{}}};\n", name, fmt::join(numbers, ", "));
}

std::string Constants(const LoopStep& step, const LoopTile& tile) {
  std::vector<int64_t> columns, columns_of_x;
  for (const ProductInput& product : step.products) columns.push_back(product.column);
  std::copy_if(step.x_columns.begin(), step.x_columns.end(), std::back_inserter(columns_of_x),
               [](int64_t column) { return column >= 0; });
  const auto carried = std::count_if(step.carried.begin(), step.carried.end(),
                                     [](int64_t output) { return output >= 0; });
  const auto width = tile.units * static_cast<int64_t>(columns.size());
  return fmt::format(R"(
constexpr int kLoopWarps = {};  // that compute
constexpr int kMovingWarps = {};
constexpr int kLoopThreads = 32 * kLoopWarps;
constexpr int kMovingThreads = 32 * kMovingWarps;
constexpr int kAllThreads = kLoopThreads + kMovingThreads + 32 * {};
constexpr int kTileRows = {};
constexpr int kUnits = {};  // of this block
constexpr int kAllUnits = {};
constexpr int kPaddedUnits = {};  // of all blocks of a group
constexpr int kGates = {};
constexpr int kWidth = kUnits * kGates;
constexpr int kPartsOfX = {};
constexpr int kInner = kPartsOfX * kPaddedUnits;
constexpr int kBlocks = {};  // of 64 bytes, along the inner axis
constexpr int kInnerWarps = {};
constexpr int kColumnWarps = kLoopWarps / kInnerWarps;
constexpr int kColumnTiles = kWidth / 8;
constexpr int kWarpTiles = (kColumnTiles + kColumnWarps - 1) / kColumnWarps;
constexpr int kWarpBlocks = (kBlocks + kInnerWarps - 1) / kInnerWarps;
constexpr int kTurnTiles = {};  // that take a turn together
constexpr int kMostAtOnce = 8 / kTurnTiles;
constexpr int kAtOnce = kWarpBlocks < kMostAtOnce ? kWarpBlocks : kMostAtOnce;
constexpr int kChains = {};  // of sums, each by itself
constexpr int kSumStride = {};
constexpr int kSumFloats = kInnerWarps * kTileRows * kSumStride;
constexpr bool kHeld = {};
constexpr bool kHasInit = {};
constexpr int kAlignment = {};  // bytes, of rows of inputs and outputs
constexpr int kInputBytes = {};  // of a tile
constexpr int kOutputBytes = {};
constexpr int kCarried = {};
using Product = {};
constexpr int kBytes = sizeof(Product::Bits);
constexpr int kElements = 16 / kBytes;
constexpr int kSlotBytes = kBlocks * kTileRows * 64;
// Parts of a unit lie side by side where they make whole words and chunks.
constexpr bool kInterleaved = kPartsOfX == 1 || kPartsOfX == 2 || kPartsOfX == 4;
using Args = LoopArgs<{}, {}>;
)",
                     tile.warps, kMovingWarps, ClearingWarps(tile), tile.tile_rows, tile.units,
                     step.units, tile.parts * tile.units, columns.size(), columns_of_x.size(),
                     InnerBlocks(step, tile), kInnerWarps, tile.together, tile.chains,
                     SumStride(width), tile.held, step.x.has_init, step.alignment,
                     InputBytes(step, tile), OutputBytes(step, tile), carried,
                     ProductType(step), step.inputs.size(), step.outputs.size()) +
         List("kColumns", columns) + List("kColumnsOfX", columns_of_x);
}

// Of loops whose blocks form clusters.
std::string ClusterText(const LoopStep& step, const LoopTile& tile) {
  const std::string constants =
      fmt::format(R"(
constexpr int kParts = {};  // blocks of a cluster
constexpr int kXUnits = {};  // of which a block multiplies x
constexpr int kXInner = kPartsOfX * kXUnits;
constexpr int kXBlocks = {};  // of 64 bytes
constexpr int kSharingWarps = {};  // that share the inner axis
constexpr int kArrivingBytes = {};  // for a row of a tile
constexpr int kArrivalStride = {};  // floats of a row of sums
constexpr int kInboxBytes = {};  // of a tile
)",
                  tile.parts, UnitsOfX(tile), BlocksOfX(step, tile), tile.sharing_warps,
                  ArrivingBytes(step, tile), ArrivalStride(step, tile), InboxBytes(step, tile));
  return constants + std::string(kClusterText) +
         std::string(tile.exchange == Exchange::kGather ? kGatherText : kScatterText);
}

}  // namespace

std::string EmitLoop(const LoopStep& step, const LoopTile& tile) {
  std::string source(kLoopDeviceText);
  source += "\nnamespace turbolstm::cuda {\n";
  source += EmitComputeFunction({"step", step.program});
  source += Constants(step, tile);
  source += kBlockText;
  if (tile.exchange != Exchange::kMemory) source += ClusterText(step, tile);
  source += EmitKernel(step, tile);
  return source;
}

}  // namespace turbolstm::cuda
