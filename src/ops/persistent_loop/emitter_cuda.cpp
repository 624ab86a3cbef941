#include "ops/persistent_loop/emitter_cuda.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/persistent_loop/device_code_cuda.h"
#include "ops/persistent_loop/device_text_cuda.h"
#include "ops/pointwise/emitter_cuda.h"

namespace turbolstm::cuda {
namespace {

// Bytes of a row that the lanes of a tensor core's product load at once.
constexpr int64_t kBlockBytes = 64;

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

int64_t BlocksOf(const LoopStep& step) {
  return CeilDiv(step.inner * static_cast<int64_t>(SizeOf(step.operand)), kBlockBytes);
}

// Columns of v in a block of threads.
int64_t Width(const LoopStep& step, int64_t units) {
  return units * static_cast<int64_t>(step.products.size());
}

// Warps share the inner axis, as far as there is enough of it, and then the columns.
int64_t InnerWarps(const LoopStep& step, const LoopTile& tile) {
  int64_t warps = std::min<int64_t>(8, tile.warps);
  while (warps > 1 && warps > BlocksOf(step)) warps /= 2;
  return warps;
}

int64_t SharedBytes(const LoopStep& step, const LoopTile& tile) {
  const int64_t width = Width(step, tile.units);
  return width * BlocksOf(step) * kBlockBytes +
         InnerWarps(step, tile) * kTileRows * (width + 8) * int64_t{sizeof(float)};
}

std::string_view ProductType(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return "Bf16Product";
    case DType::kFloat16:
      return "Fp16Product";
    default:
      return "Tf32Product";
  }
}

std::string Body(const LoopStep& step, const LoopTile& tile) {
  const auto inputs = step.program.inputs.size();
  const auto outputs = step.program.outputs.size() + step.kept.size();
  const int64_t blocks = BlocksOf(step);
  const int64_t inner_warps = InnerWarps(step, tile);
  std::string text = fmt::format(
      R"(
constexpr int kLoopWarps = {};     // that compute
constexpr int kLoopThreads = 32 * kLoopWarps;
constexpr int kBlockThreadsOfLoop = kLoopThreads + 64;
constexpr int kUnits = {};        // of this block
constexpr int kAllUnits = {};
constexpr int kGates = {};
constexpr int kWidth = kUnits * kGates;
constexpr int kInner = {};
constexpr int kBlocks = {};       // of 64 bytes, along the inner axis
constexpr int kInnerWarps = {};
constexpr int kColumnWarps = kLoopWarps / kInnerWarps;
constexpr int kColumnTiles = kWidth / 8;
constexpr int kWarpTiles = (kColumnTiles + kColumnWarps - 1) / kColumnWarps;
constexpr int kWarpBlocks = (kBlocks + kInnerWarps - 1) / kInnerWarps;
constexpr int kAtOnce = kWarpBlocks < 8 ? kWarpBlocks : 8;
constexpr int kSumStride = kWidth + 8;
using Product = {};
constexpr int kElements = 16 / Product::kBytes;
using Args = LoopArgs<{}, {}>;
)",
      tile.warps, tile.units, step.units, step.products.size(), step.inner, blocks, inner_warps,
      ProductType(step.operand), inputs, outputs);
  text += "__constant__ const int kColumns[kGates] = {";
  for (const ProductInput& product : step.products) text += fmt::format("{}, ", product.column);
  text += "};\n";
  text += R"(
// The weights of this block, each where the lane that multiplies with it finds it.
__device__ __forceinline__ void LoadWeights(const LoopHead& head, int first_unit, uint4* weights) {
  for (int i = threadIdx.x; i < kBlocks * kColumnTiles * 32; i += kLoopThreads) {
    const int lane = i % 32;
    const int column = i / 32 % kColumnTiles * 8 + lane / 4;
    const int block = i / 32 / kColumnTiles;
    const int unit = first_unit + column % kUnits;
    const long long row = kColumns[column / kUnits] + unit;
    const int inner = block * 4 * kElements + lane % 4 * kElements;
    union {
      uint4 all;
      unsigned words[4];
      unsigned short halves[8];
    } bits;
    bits.all = make_uint4(0, 0, 0, 0);
    const bool there = unit < kAllUnits && inner < kInner;
    if (!head.weight_transposed) {
      const char* const at = head.weight + (row * head.weight_stride + inner) * Product::kBytes;
      if (there) bits.all = *reinterpret_cast<const uint4*>(at);
    } else {
      const char* const at = head.weight + (inner * head.weight_stride + row) * Product::kBytes;
      const long long next = head.weight_stride * Product::kBytes;
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        if (Product::kBytes == 2) {
          bits.halves[e] = there ? *reinterpret_cast<const unsigned short*>(at + e * next) : 0;
        } else {
          bits.words[e] = there ? *reinterpret_cast<const unsigned*>(at + e * next) : 0;
        }
      }
    }
    weights[i] = Operands<Product>(bits.all);
  }
}

// This warp's part of the sums of 16 rows; row b is at rows + b * row_bytes.
__device__ __forceinline__ void Multiply(const char* rows, long long row_bytes, int batch,
                                         const uint4* weights, float* sums) {
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int inner_warp = warp % kInnerWarps;
  const int column_warp = warp / kInnerWarps;
  const int upper = lane / 4;
  const char* const start = rows + upper * row_bytes;
  float c[kWarpTiles][4] = {};
#pragma unroll
  for (int first = 0; first < kWarpBlocks; first += kAtOnce) {
    uint4 above[kAtOnce], below[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int inner = ((first + k) * kInnerWarps + inner_warp) * 4 * kElements +
                        lane % 4 * kElements;
      const char* const at = start + inner * Product::kBytes;
      above[k] = LoadShared16(at, inner < kInner && upper < batch);
      below[k] = LoadShared16(at + 8 * row_bytes, inner < kInner && upper + 8 < batch);
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int block = (first + k) * kInnerWarps + inner_warp;
      if (block >= kBlocks) continue;
      above[k] = Operands<Product>(above[k]);
      below[k] = Operands<Product>(below[k]);
#pragma unroll
      for (int n = 0; n < kWarpTiles; ++n) {
        const int tile = n * kColumnWarps + column_warp;
        if (kColumnTiles % kColumnWarps != 0 && tile >= kColumnTiles) continue;
        AddProducts<Product>(c[n], above[k], below[k],
                             weights[(block * kColumnTiles + tile) * 32 + lane]);
      }
    }
  }
  float* const mine = sums + inner_warp * kTileRows * kSumStride;
#pragma unroll
  for (int n = 0; n < kWarpTiles; ++n) {
    const int tile = n * kColumnWarps + column_warp;
    if (kColumnTiles % kColumnWarps != 0 && tile >= kColumnTiles) continue;
    float* const to = mine + upper * kSumStride + tile * 8 + lane % 4 * 2;
    *reinterpret_cast<float2*>(to) = make_float2(c[n][0], c[n][1]);
    *reinterpret_cast<float2*>(to + 8 * kSumStride) = make_float2(c[n][2], c[n][3]);
  }
}

__device__ __forceinline__ float SumOf(const float* sums, int row, int column) {
  float sum = 0.0f;
#pragma unroll
  for (int w = 0; w < kInnerWarps; ++w) {
    sum += sums[(w * kTileRows + row) * kSumStride + column];
  }
  return sum;
}

// An element of a tile, and what it is for the network.
struct Place {
  int row, unit;  // within the block
  unsigned b;     // sequence
  int j;
  int length;
  bool there;  // not behind the last unit or sequence
  bool valid;  // nor padding
};

__device__ __forceinline__ Place PlaceOf(int first_row, int first_unit, int t, int steps,
                                         int batch, const int* lengths) {
  Place at;
  at.row = threadIdx.x / kUnits;
  at.unit = threadIdx.x % kUnits;
  at.b = first_row + at.row;
  at.j = first_unit + at.unit;
  at.there = threadIdx.x < kTileRows * kUnits && at.b < batch && at.j < kAllUnits;
  at.length = lengths && at.there ? lengths[at.b] : steps;
  at.valid = at.there && t < at.length;
  return at;
}
)";
  return text;
}

// The kernel; what stands between @ depends on the program.
constexpr std::string_view kKernel = R"(
extern "C" __global__ void __launch_bounds__(kBlockThreadsOfLoop, 1)
    loop(const __grid_constant__ Args args) {
  extern __shared__ uint4 shared[];
  uint4* const weights = shared;
  float* const sums = reinterpret_cast<float*>(shared + kBlocks * kColumnTiles * 32);
  const LoopHead& head = args.head;
  const int steps = static_cast<int>(head.general.range.steps);
  const int batch = static_cast<int>(head.general.sequences.batch);
  const int* const lengths = head.general.range.padded ? head.general.sequences.lengths : nullptr;
  const int parts = static_cast<int>(head.parts);
  const int tiles = static_cast<int>(head.tiles);
  const int group = blockIdx.x / parts;
  const int first_unit = blockIdx.x % parts * kUnits;
  const int warp = threadIdx.x / 32;
  const bool computes = warp < kLoopWarps;
  const bool waits = warp == kLoopWarps;
  bool lost = false;
  if (computes) LoadWeights(head, first_unit, weights);
  __syncthreads();
  for (int s = 0; s < steps; ++s) {
    const int t = head.general.reverse ? steps - 1 - s : s;
    const bool multiplied = s > 0 || head.x.init;
    for (int tile = 0; tile < tiles; ++tile) {
      unsigned* const arrivals = head.arrivals + group * tiles + tile;
      if (waits) {
        if (s > 0 && threadIdx.x % 32 == 0) Await(arrivals, s * parts, head.fault, &lost);
        __syncwarp();
        Meet(kArrived, kLoopThreads + 32);
        continue;
      }
      if (!computes) {
        Meet(kWritten, kLoopThreads + 32);
        if (threadIdx.x % 32 == 0) Arrive(arrivals);
        continue;
      }
      const int first_row = (group * tiles + tile) * kTileRows;
      const Place at = PlaceOf(first_row, first_unit, t, steps, batch, lengths);
      const unsigned now = t * batch + at.b;
      // Under way while the block waits.
@rows@@bits@      Meet(kArrived, kLoopThreads + 32);
      if (multiplied) {
        const char* const x = s > 0 ? RowAt(head.x, @x@) : head.x.init + first_row * head.x.init_row_bytes;
        Multiply(x, s > 0 ? head.x.row_bytes : head.x.init_row_bytes, batch - first_row, weights,
                 sums);
      }
      Meet(kSummed, kLoopThreads);
      float @inputs@;
      float @results@;
      if (at.valid) {
@sums@        step_compute(@arguments@);
      }
      if (at.there) {
@parts@      }
      Meet(kWritten, kLoopThreads + 32);
      // Nobody waits for the rest.
      if (at.there) {
@kept@@stores@      }
    }
  }
}

}  // namespace turbolstm::cuda
)";

// What the program makes of the kernel's text.
class KernelText {
 public:
  explicit KernelText(const LoopStep& step) : step_(step), program_(step.program) {}

  std::string Write() {
    std::string text(kKernel);
    Replace(&text, "@rows@", Rows());
    Replace(&text, "@x@", Row(step_.x, "first_row", step_.x.forward ? "(t - 1)" : "(t + 1)"));
    Replace(&text, "@bits@", Bits());
    Replace(&text, "@inputs@", Inputs());
    Replace(&text, "@results@", Results());
    Replace(&text, "@sums@", Sums());
    Replace(&text, "@arguments@", ComputeArguments({"step", program_}));
    Replace(&text, "@kept@", Kept());
    Replace(&text, "@parts@", Stores(true));
    Replace(&text, "@stores@", Stores(false));
    return text;
  }

 private:
  static void Replace(std::string* text, std::string_view what, const std::string& by) {
    text->replace(text->find(what), what.size(), by);
  }

  // Whether an input has nothing in memory: it is the product.
  bool IsProductAlone(size_t input) const {
    return std::any_of(step_.products.begin(), step_.products.end(),
                       [&](const ProductInput& p) { return p.input == input && !p.reads; });
  }

  // The number of a row at a step.
  static std::string Row(const LoopRows& rows, std::string_view b, std::string_view t) {
    switch (rows.kind) {
      case RowKind::kShared:
        return "0";
      case RowKind::kBatch:
        return std::string(b);
      case RowKind::kStep:
        break;
    }
    if (rows.period == 0) return fmt::format("{} * batch + {}", t, b);
    return fmt::format("{} % {} * batch + {}", t, rows.period, b);
  }

  // Where an input's row lies at a valid element.
  static std::string Address(const LoopRows& rows, size_t input) {
    if (rows.delay == 0) {
      return fmt::format(
          "RowAt(args.in[{}], {})", input,
          rows.kind == RowKind::kStep && rows.period == 0 ? "now" : Row(rows, "at.b", "t"));
    }
    std::string none = "nullptr";
    if (rows.has_init) {
      none = fmt::format("args.in[{0}].init + at.b * args.in[{0}].init_row_bytes", input);
    }
    return fmt::format("{} ? RowAt(args.in[{}], {}) : {}",
                       rows.forward ? "t > 0" : "t + 1 < at.length", input,
                       Row(rows, "at.b", rows.forward ? "(t - 1)" : "(t + 1)"), none);
  }

  std::string Rows() const {
    std::string text;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (IsProductAlone(i)) continue;
      text += fmt::format("      const char* row{} = nullptr;\n      if (at.valid) row{} = {};\n",
                          i, i, Address(step_.inputs[i], i));
    }
    return text;
  }

  std::string Bits() const {
    std::string text;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (IsProductAlone(i)) continue;
      const InputKind kind = program_.program.inputs[i];
      const bool by_column = kind == InputKind::kElement || kind == InputKind::kRowVector;
      text += fmt::format("      const auto bits{0} = LoadBits<{1}>(row{0}, {2});\n", i,
                          MemoryTypeName(program_.inputs[i]), by_column ? "at.j" : "0");
    }
    return text;
  }

  std::string Inputs() const {
    std::string text;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      text += fmt::format("{}x{} = ", i == 0 ? "" : ", ", i);
      text += IsProductAlone(i)
                  ? "0.0f"
                  : fmt::format("{}::Widen(bits{})", MemoryTypeName(program_.inputs[i]), i);
    }
    return text;
  }

  std::string Results() const {
    std::string text;
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      text += fmt::format("{}y{} = 0.0f", i == 0 ? "" : ", ", i);
    }
    return text;
  }

  std::string Sums() const {
    std::string text;
    for (size_t g = 0; g < step_.products.size(); ++g) {
      text += fmt::format(
          "        if (head.bias) x{0} += head.bias[kColumns[{1}] + at.j];\n"
          "        if (multiplied) x{0} += SumOf(sums, at.row, {1} * kUnits + at.unit);\n",
          step_.products[g].input, g);
    }
    return text;
  }

  std::string Kept() const {
    std::string text;
    size_t kept = 0;
    for (const ProductInput& product : step_.products) {
      if (!product.kept) continue;
      text += Store(step_.kept[kept], program_.outputs.size() + kept,
                    fmt::format("at.valid ? x{} : 0.0f", product.input));
      ++kept;
    }
    return text;
  }

  // Of the outputs that are parts of x, or of the others.
  std::string Stores(bool parts) const {
    std::string text;
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      if (step_.parts_of_x[i] == parts)
        text += Store(program_.outputs[i], i, fmt::format("y{}", i));
    }
    return text;
  }

  std::string Store(DType dtype, size_t output, const std::string& value) const {
    const LoopRows& rows = step_.outputs[output];
    return fmt::format("        Store<{}>(RowAt(args.out[{}], {}), at.j, {});\n",
                       MemoryTypeName(dtype), output,
                       rows.period == 0 ? "now" : Row(rows, "at.b", "t"), value);
  }

  const LoopStep& step_;
  const TypedProgram& program_;
};

}  // namespace

// The first tile of a step shows all latencies; those of further tiles hide behind each other.
double PersistentCost(const LoopStep& step, const LoopTile& tile) {
  constexpr double kCacheBytesPerSecond = 8e12;  // all blocks read x from the same cache
  const double row = static_cast<double>(BlocksOf(step) * kBlockBytes);
  const double weights = row * static_cast<double>(Width(step, tile.units));
  const double reading =
      row * static_cast<double>(kTileRows * tile.parts * tile.groups) / kCacheBytesPerSecond;
  const double first =
      0.8e-6 + 1.25e-8 * static_cast<double>(tile.parts) + 1.3e-11 * weights + reading;
  const double further = 0.95e-6 + 3.4e-12 * weights + 0.4 * reading;
  return first + further * static_cast<double>(tile.tiles - 1);
}

double StepwiseCost(const LoopStep& step, int64_t batch) {
  const double size = std::sqrt(static_cast<double>(step.inner * step.columns));
  const double wide = SizeOf(step.operand) > 2 ? 1.5 : 1;
  return wide * (4.2e-6 + 1.25e-9 * size + 1.1e-11 * size * static_cast<double>(batch));
}

LoopTile ChooseTile(const LoopStep& step, int64_t batch, int64_t processors, int64_t shared_limit) {
  LoopTile best;
  const int64_t all_tiles = CeilDiv(batch, kTileRows);
  for (const int64_t units : {8, 16, 32}) {
    LoopTile tile;
    tile.units = units;
    tile.warps = std::max<int64_t>(8, units / 2);
    tile.parts = CeilDiv(step.units, units);
    tile.shared_bytes = SharedBytes(step, tile);
    if (tile.parts > processors || tile.shared_bytes > shared_limit) continue;
    const int64_t most_groups = std::min(all_tiles, processors / tile.parts);
    tile.tiles = CeilDiv(all_tiles, most_groups);
    tile.groups = CeilDiv(all_tiles, tile.tiles);
    if (best.parts == 0 || PersistentCost(step, tile) < PersistentCost(step, best)) best = tile;
  }
  return best;
}

std::string EmitLoop(const LoopStep& step, const LoopTile& tile) {
  std::string source(kLoopDeviceText);
  source += "\nnamespace turbolstm::cuda {\n";
  source += EmitComputeFunction({"step", step.program});
  source += Body(step, tile);
  source += KernelText(step).Write();
  return source;
}

}  // namespace turbolstm::cuda
