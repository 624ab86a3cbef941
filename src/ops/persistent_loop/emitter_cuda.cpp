#include "ops/persistent_loop/emitter_cuda.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "ops/persistent_loop/block_text_cuda.h"
#include "ops/persistent_loop/cluster_text_cuda.h"
#include "ops/persistent_loop/device_code_cuda.h"
#include "ops/persistent_loop/device_text_cuda.h"
#include "ops/persistent_loop/program_text_cuda.h"
#include "ops/persistent_loop/split_text_cuda.h"
#include "ops/pointwise/emitter_cuda.h"

namespace turbolstm::cuda {
namespace {

// Off by 3e-7 at most, which does not show behind values of 16 bits, in half the instructions.
constexpr std::string_view kQuickGates = R"(
__device__ __forceinline__ float QuickSigmoid(float a) {
  return __fdividef(1.0f, 1.0f + __expf(-a));
}
__device__ __forceinline__ float QuickTanh(float a) {
  return 1.0f - __fdividef(2.0f, 1.0f + __expf(2.0f * a));
}
#define Sigmoid QuickSigmoid
#define Tanh QuickTanh
)";

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
  const int64_t width = tile.splits * tile.units * static_cast<int64_t>(columns.size());
  const RoleRegisters registers = RegistersOf(tile);
  return fmt::format(R"(
constexpr int kLoopWarps = {};  // that multiply
constexpr int kFinishingWarps = {};  // that run the program; 0: those that multiply
constexpr int kMovingWarps = {};
constexpr int kLoopThreads = 32 * kLoopWarps;
constexpr int kMovingThreads = 32 * kMovingWarps;
constexpr int kFirstFinisher = kFinishingWarps == 0 ? 0 : kLoopThreads;  // of the threads
constexpr int kFirstMover = kLoopThreads + 32 * kFinishingWarps;
constexpr int kAllThreads = kFirstMover + kMovingThreads + 32 * {};
constexpr int kTileRows = {};
constexpr int kMultiplierRegisters = {};
constexpr int kFinisherRegisters = {};
constexpr int kMoverRegisters = {};
constexpr int kUnits = {};  // of this block
constexpr int kAllUnits = {};
constexpr int kPaddedUnits = {};  // of all blocks of a group
constexpr int kGates = {};
constexpr int kSplits = {};  // blocks that share columns, each with a share of the inner axis
constexpr int kWidth = kUnits * kGates * kSplits;
constexpr int kPartsOfX = {};
constexpr int kInner = kPartsOfX * kPaddedUnits;
constexpr int kAllBlocks = {};  // of 64 bytes, along the inner axis
constexpr int kBlocks = (kAllBlocks + kSplits - 1) / kSplits;
constexpr int kInnerWarps = {};
constexpr int kColumnWarps = kLoopWarps / kInnerWarps;
constexpr int kColumnTiles = kWidth / 8;
constexpr int kWarpTiles = (kColumnTiles + kColumnWarps - 1) / kColumnWarps;
constexpr int kWarpBlocks = (kBlocks + kInnerWarps - 1) / kInnerWarps;
constexpr int kTurnTiles = {};  // that take a turn together
constexpr int kAtOnce = {};  // blocks of x of each tile in registers
constexpr int kChains = {};  // of sums, each by itself
constexpr int kSumStride = {};
constexpr int kSumFloats = kInnerWarps * kTileRows * kSumStride;
constexpr int kHeld = {};  // pieces of the weights that a lane holds in registers
constexpr int kLoose = kWarpBlocks * kWarpTiles - kHeld;
constexpr int kRowsThere = {};  // of a tile
constexpr bool kAhead = {};  // x of the next turn is asked for early
constexpr bool kHasInit = {};
constexpr int kAlignment = {};  // bytes, of rows of inputs and outputs
constexpr int kInputBytes = {};  // of a tile
constexpr int kOutputBytes = {};
constexpr int kCarried = {};
using Product = {};
constexpr int kBytes = sizeof(Product::Bits);
constexpr int kElements = 16 / kBytes;
constexpr int kXBytes = kAllBlocks * kTileRows * 64;
constexpr int kSlotBytes = {};
constexpr int kStepSlots = {};
constexpr int kInputPlaces = {};  // where warps have roles
constexpr int kFetchAhead = {};   // turns
constexpr bool kGated = {};
constexpr int kDefer = {};  // turns that sums wait for those of other blocks
// Parts of a unit lie side by side where they make whole words and chunks.
constexpr bool kInterleaved = kPartsOfX == 1 || kPartsOfX == 2 || kPartsOfX == 4;
using Args = LoopArgs<{}, {}>;
)",
                     tile.warps, tile.finishing, kMovingWarps, ClearingWarps(tile), tile.tile_rows,
                     registers.multiplier, registers.finisher, registers.mover, tile.units,
                     step.units, tile.parts * tile.units, columns.size(), tile.splits,
                     columns_of_x.size(), InnerBlocks(step, tile), kInnerWarps, tile.together,
                     tile.at_once, tile.chains, SumStride(width), tile.held, tile.rows,
                     tile.tiles > tile.together, step.x.has_init, step.alignment,
                     InputBytes(step, tile), OutputBytes(step, tile), carried, ProductType(step),
                     SlotBytes(step, tile), StepSlots(tile), InputPlaces(tile), tile.fetch_ahead,
                     IsGated(tile), DeferredTurns(tile), step.inputs.size(), step.outputs.size()) +
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
  if (SizeOf(step.operand) == 2) source += kQuickGates;
  source += EmitComputeFunction({"step", step.program});
  source += Constants(step, tile);
  source += kBlockText;
  if (tile.splits > 1) source += kSplitText;
  if (tile.exchange != Exchange::kMemory) source += ClusterText(step, tile);
  source += EmitKernel(step, tile);
  return source;
}

}  // namespace turbolstm::cuda
