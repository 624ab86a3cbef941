#include "ops/persistent_loop/emitter_cuda.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "ops/persistent_loop/block_text_cuda.h"
#include "ops/persistent_loop/device_code_cuda.h"
#include "ops/persistent_loop/device_text_cuda.h"
#include "ops/pointwise/emitter_cuda.h"

namespace turbolstm::cuda {
namespace {

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
constexpr int kAllThreads = kLoopThreads + kMovingThreads + 32;
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
constexpr bool kAligned = {};  // rows of inputs and outputs begin at multiples of 16 bytes
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
                     tile.warps, kMovingWarps, tile.units, step.units, tile.parts * tile.units,
                     columns.size(), columns_of_x.size(), InnerBlocks(step, tile), kInnerWarps,
                     tile.together, tile.chains, SumStride(width), tile.held, step.x.has_init,
                     step.aligned, InputBytes(step, tile), OutputBytes(step, tile), carried,
                     ProductType(step.operand), step.inputs.size(), step.outputs.size()) +
         List("kColumns", columns) + List("kColumnsOfX", columns_of_x);
}

// What moves a step's inputs and outputs; what stands between @ depends on the program.
constexpr std::string_view kMoverText = R"(
// By the moving warps: this block's share of a step's inputs is on the way to shared memory.
__device__ __forceinline__ void FetchInputs(const Args& args, char* stage, int first_row,
                                            int first_unit, int t) {
  const int batch = static_cast<int>(args.head.general.sequences.batch);
  const int steps = static_cast<int>(args.head.general.range.steps);
  const int* const lengths =
      args.head.general.range.padded ? args.head.general.sequences.lengths : nullptr;
  const unsigned char* const resets = args.head.general.sequences.resets;
  const int warp = threadIdx.x / 32 - kLoopWarps;
  const int lane = threadIdx.x % 32;
@fetch@}

__device__ __forceinline__ void PutOutputs(const Args& args, const char* stage, int first_row,
                                           int first_unit, int t) {
  const int batch = static_cast<int>(args.head.general.sequences.batch);
  const int warp = threadIdx.x / 32 - kLoopWarps;
  const int lane = threadIdx.x % 32;
@put@}

// A step of the tiles from one on, and the next one.
struct Turn {
  int s, tile;
  __device__ __forceinline__ Turn Next(int tiles) const {
    return tile + kTurnTiles < tiles ? Turn{s, tile + kTurnTiles} : Turn{s + 1, 0};
  }
};

// By the moving warps: fetches inputs one turn ahead, and puts outputs away one turn behind.
struct Mover {
  const Args& args;
  char* inputs;  // of even turns, then of odd ones
  const char* outputs;
  int first_tile, first_unit, steps, tiles, begin, end;
  Turn before;

  __device__ __forceinline__ int RowOf(Turn turn, int j) const {
    return (first_tile + turn.tile + j) * kTileRows;
  }
  __device__ __forceinline__ int TimeOf(Turn turn) const {
    return args.head.general.reverse ? steps - 1 - turn.s : turn.s;
  }
  __device__ __forceinline__ void Fetch(Turn turn, int parity) const {
    for (int j = 0; j < kTurnTiles && turn.s < end; ++j) {
      FetchInputs(args, inputs + (parity * kTurnTiles + j) * kInputBytes, RowOf(turn, j),
                  first_unit, TimeOf(turn));
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  __device__ __forceinline__ void Put() const {
    for (int j = 0; j < kTurnTiles; ++j) {
      PutOutputs(args, outputs + j * kOutputBytes, RowOf(before, j), first_unit, TimeOf(before));
    }
  }
  // While others wait for x and multiply; then this turn's inputs are there.
  __device__ __forceinline__ void Run(Turn turn, int parity) {
    Fetch(turn.Next(tiles), 1 - parity);
    if (turn.s > begin || turn.tile > 0) Put();
    before = turn;
    asm volatile("cp.async.wait_group 1;" ::: "memory");
  }
};
)";

// The kernel; what stands between @ depends on the program.
constexpr std::string_view kKernelText = R"(
extern "C" __global__ void __launch_bounds__(kAllThreads, 1)
    loop(const __grid_constant__ Args args) {
  extern __shared__ uint4 shared[];
  float* const sums = reinterpret_cast<float*>(shared + (kHeld ? 0 : kBlocks * kColumnTiles * 32));
  char* const all_inputs = reinterpret_cast<char*>(sums + kTurnTiles * kSumFloats);
  char* const all_outputs = all_inputs + 2 * kTurnTiles * kInputBytes;
  float* const all_carried = reinterpret_cast<float*>(all_outputs + kTurnTiles * kOutputBytes);
  const LoopHead& head = args.head;
  const int steps = static_cast<int>(head.general.range.steps);
  const int batch = static_cast<int>(head.general.sequences.batch);
  const int* const lengths = head.general.range.padded ? head.general.sequences.lengths : nullptr;
  const unsigned char* const resets = head.general.sequences.resets;
  constexpr int kParts = kPaddedUnits / kUnits;
  const int tiles = head.tiles;
  const int first_tile = blockIdx.x / kParts * tiles;
  const int first_unit = blockIdx.x % kParts * kUnits;
  const bool has_init = kHasInit && head.x.init;
  char* const exchange = head.exchange + static_cast<long long>(first_tile) * kSlots * kSlotBytes;
  const bool computes = threadIdx.x < kLoopThreads;
  const bool moves = !computes && threadIdx.x < kLoopThreads + kMovingThreads;
  const bool clears = !computes && !moves;
  const int begin = static_cast<int>(head.begin);
  const int end = static_cast<int>(head.end);
  Mover mover{args,  all_inputs, all_outputs, first_tile, first_unit, steps,
              tiles, begin,      end,         {begin, 0}};
  Multiplier multiplier;
  if (moves) mover.Fetch({begin, 0}, 0);
  if (computes) multiplier.Load(head, first_unit, shared);
  const int carried_floats = tiles * kCarried * kTileRows * kUnits;
  float* const carry = head.carry + static_cast<long long>(blockIdx.x) * carried_floats;
  for (int i = threadIdx.x; begin > 0 && i < carried_floats; i += kAllThreads) {
    all_carried[i] = carry[i];
  }
  for (int tile = 0; computes && has_init && begin == 0 && tile < tiles; ++tile) {
    const Place at =
        PlaceOf((first_tile + tile) * kTileRows, first_unit, 0, steps, batch, nullptr);
    char* const slot = exchange + (static_cast<long long>(tile) * kSlots + kSlots - 1) * kSlotBytes;
@inits@  }
@biases@  int parity = 0;
  __syncthreads();
  for (int s = begin; s < end; ++s) {
    const int t = head.general.reverse ? steps - 1 - s : s;
    const bool multiplied = s > 0 || has_init;
    for (int tile = 0; tile < tiles; tile += kTurnTiles) {
      char* const slots = exchange + static_cast<long long>(tile) * (kSlots * kSlotBytes);
@early@      if (computes && multiplied) {
        multiplier.Run(slots + (s + kSlots - 1) % kSlots * kSlotBytes, sums);
      }
      if (moves) mover.Run({s, tile}, parity);
      // Partial sums are in shared memory, and the step's inputs.
      __syncthreads();
#pragma unroll
      for (int j = 0; j < kTurnTiles; ++j) {
        char* const slot = slots + (j * kSlots + s % kSlots) * kSlotBytes;
        const char* const inputs = all_inputs + (parity * kTurnTiles + j) * kInputBytes;
        char* const outputs = all_outputs + j * kOutputBytes;
        if (clears) Clear(slots + (j * kSlots + (s + 2) % kSlots) * kSlotBytes, first_unit);
        if (!computes) continue;
@late@        float @results@;
@declarations@        if (at.valid) {
@inputs@@sums@          step_compute(@arguments@);
        }
@parts@        // Nobody waits for the rest.
        if (at.row < kTileRows) {
@carry@@kept@@stores@        }
      }
      // They are read, and outputs are in shared memory.
      __syncthreads();
      parity = 1 - parity;
    }
    if (clears) FenceDevice();
  }
  if (moves) mover.Put();
  for (int i = threadIdx.x; end < steps && i < carried_floats; i += kAllThreads) {
    carry[i] = all_carried[i];
  }
}

}  // namespace turbolstm::cuda
)";

void Replace(std::string* text, std::string_view what, const std::string& by) {
  text->replace(text->find(what), what.size(), by);
}

// What the program makes of the kernel's text.
class KernelText {
 public:
  KernelText(const LoopStep& step, const LoopTile& tile)
      : step_(step), program_(step.program), tile_(tile) {}

  std::string Write() const {
    std::string mover(kMoverText);
    Replace(&mover, "@fetch@", Fetch());
    Replace(&mover, "@put@", Put());
    std::string text(kKernelText);
    Replace(&text, "@inits@", HandOver("0.0f", "true"));
    Replace(&text, "@biases@", Biases());
    // What a step needs besides is under way while the block waits, unless two tiles take a turn.
    const bool early = tile_.together == 1;
    Replace(&text, "@early@", early ? "      constexpr int j = 0;\n" + Element() : "");
    Replace(&text, "@late@", early ? "" : Element());
    Replace(&text, "@results@", Results());
    Replace(&text, "@declarations@", Declarations());
    Replace(&text, "@inputs@", Inputs());
    Replace(&text, "@sums@", Sums());
    Replace(&text, "@arguments@", ComputeArguments({"step", program_}));
    Replace(&text, "@parts@", HandOver("y", "anew"));
    Replace(&text, "@carry@", Carry());
    Replace(&text, "@kept@", Kept());
    Replace(&text, "@stores@", Stores());
    return mover + text;
  }

 private:
  // Whether an input has nothing in memory: it is the product.
  bool IsProductAlone(size_t input) const {
    return std::any_of(step_.products.begin(), step_.products.end(),
                       [&](const ProductInput& p) { return p.input == input && !p.reads; });
  }

  // Read by who needs it, at every step.
  bool IsDirect(size_t input) const {
    return !IsProductAlone(input) && step_.carried[input] < 0 && !IsStaged(step_, input);
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
    if (rows.delay == 0)
      return fmt::format("RowAt(args.in[{}], {})", input, Row(rows, "at.b", "t"));
    const std::string_view source = rows.forward ? "(t - 1)" : "(t + 1)";
    return fmt::format("{} ? RowAt(args.in[{}], {}) : {}", HasPast(rows), input,
                       Row(rows, "at.b", source), Init(rows, input));
  }

  // Whether there is a step that a delay of one reads.
  static std::string HasPast(const LoopRows& rows) {
    return fmt::format("{} && !(resets && resets[{} * batch + at.b])",
                       rows.forward ? "t > 0" : "t + 1 < at.length",
                       !rows.adjoint  ? "t"
                       : rows.forward ? "(t - 1)"
                                      : "(t + 1)");
  }

  static std::string Init(const LoopRows& rows, size_t input) {
    if (!rows.has_init) return "nullptr";
    return fmt::format(
        "(args.in[{0}].init ? args.in[{0}].init + at.b * args.in[{0}].init_row_bytes : nullptr)",
        input);
  }

  // Whether who reads this step's x begins anew: behind a reset, or, in reverse, behind padding.
  std::string Anew() const {
    if (step_.x.adjoint) {
      return "      const bool anew = at.valid && resets && resets[t * batch + at.b];\n";
    }
    const std::string_view reader = step_.x.forward ? "(t + 1)" : "(t - 1)";
    return fmt::format(
        "      const bool anew = {} ||\n"
        "                        (at.there && s + 1 < steps && resets && resets[{} * batch + "
        "at.b]);\n",
        step_.x.forward ? "false" : "!at.valid", reader);
  }

  // Inputs and outputs are dealt out to the moving warps.
  static std::string ByWarp(const std::vector<std::string>& work) {
    std::string text;
    for (size_t warp = 0; warp < kMovingWarps; ++warp) {
      text += fmt::format("  if (warp == {}) {{\n", warp);
      for (size_t i = warp; i < work.size(); i += kMovingWarps) text += work[i];
      text += "  }\n";
    }
    return text;
  }

  std::string Fetch() const {
    std::vector<std::string> work;
    int64_t offset = 0;
    for (size_t i = 0; i < step_.inputs.size(); ++i) {
      if (!IsStaged(step_, i)) continue;
      const auto size = static_cast<int64_t>(SizeOf(program_.inputs[i]));
      work.push_back(fmt::format(R"(#pragma unroll
    for (int first = 0; first < {0}; first += 32) {{
      const int k = first + lane;
      if ({0} % 32 != 0 && k >= {0}) break;
      struct {{
        unsigned b;
        int length;
      }} at;
      at.b = first_row + k / {1};
      at.length = lengths && at.b < batch ? lengths[at.b] : steps;
      const char* row = nullptr;
      if (at.b < batch) row = {2};
      Fetch<{3}>(stage + {4} + k * 16, row, first_unit + k % {1} * {5});
    }}
)",
                                 kTileRows * Chunks(size), Chunks(size),
                                 Address(step_.inputs[i], i), size, offset, 16 / size));
      offset += kTileRows * tile_.units * size;
    }
    return ByWarp(work);
  }

  // All that a warp puts away is loaded before any of it is stored.
  std::string Put() const {
    std::vector<std::string> loads, stores;
    int64_t offset = 0;
    for (size_t i = 0; i < step_.outputs.size(); ++i) {
      if (!IsStored(step_, i)) continue;
      const auto size = static_cast<int64_t>(SizeOf(OutputType(step_, i)));
      const int64_t chunks = kTileRows * Chunks(size);
      for (int64_t first = 0; first < chunks; first += 32) {
        const std::string name = fmt::format("chunk{}_{}", i, first);
        const std::string there = chunks % 32 != 0 ? fmt::format("lane < {}", chunks) : "true";
        loads.push_back(
            fmt::format("    uint4 {};\n    if ({}) {} = *reinterpret_cast<const uint4*>(stage + "
                        "{} + lane * 16);\n",
                        name, there, name, offset + first * 16));
        stores.push_back(fmt::format(
            "    if ({0} && first_row + ({1} + lane) / {2} < batch) {{\n"
            "      const unsigned b = first_row + ({1} + lane) / {2};\n"
            "      Put<{3}>(RowAt(args.out[{4}], {5}), {6}, first_unit + lane % {2} * {7});\n"
            "    }}\n",
            there, first, Chunks(size), size, i, Row(step_.outputs[i], "b", "t"), name, 16 / size));
      }
      offset += kTileRows * tile_.units * size;
    }
    std::vector<std::string> work(kMovingWarps);
    for (size_t i = 0; i < loads.size(); ++i) work[i % kMovingWarps] += loads[i];
    for (size_t i = 0; i < stores.size(); ++i) work[i % kMovingWarps] += stores[i];
    return ByWarp(work);
  }

  // Of 16 bytes, in a row's share of a block.
  int64_t Chunks(int64_t size) const { return tile_.units * size / 16; }

  std::string Biases() const {
    std::string text;
    for (size_t g = 0; g < step_.products.size(); ++g) {
      text += fmt::format(
          "  const float bias{0} = head.bias && first_unit + threadIdx.x % kUnits < kAllUnits\n"
          "                          ? head.bias[kColumns[{0}] + first_unit + threadIdx.x % "
          "kUnits]\n"
          "                          : 0.0f;\n",
          g);
    }
    return text;
  }

  // Which element a thread has, and what it reads from memory by itself.
  std::string Element() const {
    return R"(      const Place at =
          PlaceOf((first_tile + tile + j) * kTileRows, first_unit, t, steps, batch, lengths);
      const int element = at.row * kUnits + at.unit;
      float* const carried = all_carried + (tile + j) * kCarried * kTileRows * kUnits + element;
)" + Bits() +
           Anew();
  }

  std::string Bits() const {
    std::string text;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (step_.carried[i] >= 0) {
        const LoopRows& rows = step_.inputs[i];
        text += fmt::format(
            "      const bool past{0} = at.valid && {1};\n"
            "      const char* row{0} = nullptr;\n"
            "      if (at.valid && !past{0}) row{0} = {2};\n"
            "      const auto bits{0} = LoadBits<{3}>(row{0}, at.j);\n",
            i, HasPast(rows), Init(rows, i), MemoryTypeName(program_.inputs[i]));
      } else if (IsDirect(i)) {
        const InputKind kind = program_.program.inputs[i];
        const bool by_column = kind == InputKind::kElement || kind == InputKind::kRowVector;
        text += fmt::format(
            "      const char* row{0} = nullptr;\n"
            "      if (at.valid) row{0} = {1};\n"
            "      const auto bits{0} = LoadBits<{2}>(row{0}, {3});\n",
            i, Address(step_.inputs[i], i), MemoryTypeName(program_.inputs[i]),
            by_column ? "at.j" : "0");
      }
    }
    return text;
  }

  std::string Declarations() const {
    std::string text = "      float ";
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      text += fmt::format("{}x{} = 0.0f", i == 0 ? "" : ", ", i);
    }
    return text + ";\n";
  }

  std::string Inputs() const {
    std::string text;
    int64_t offset = 0, carried = 0;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      const std::string_view type = MemoryTypeName(program_.inputs[i]);
      if (IsStaged(step_, i)) {
        text += fmt::format("        x{} = Staged<{}>(inputs + {}, element);\n", i, type, offset);
        offset += kTileRows * tile_.units * static_cast<int64_t>(SizeOf(program_.inputs[i]));
      } else if (step_.carried[i] >= 0) {
        text += fmt::format(
            "        x{0} = past{0} ? carried[{1} * kTileRows * kUnits] : {2}::Widen(bits{0});\n",
            i, carried++, type);
      } else if (IsDirect(i)) {
        text += fmt::format("        x{0} = {1}::Widen(bits{0});\n", i, type);
      }
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
          "        x{0} += bias{1};\n"
          "        if (multiplied) x{0} += SumOf(sums + j * kSumFloats, at.row, {1} * kUnits + "
          "at.unit);\n",
          step_.products[g].input, g);
    }
    return text;
  }

  std::string HandOver(std::string_view value, std::string_view anew) const {
    std::string text = "      const Product::Bits parts_of_x[kPartsOfX] = {";
    int part = 0;
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      if (step_.x_columns[i] < 0) continue;
      text += fmt::format("{}Handed<{}>(head, at, {}, {})", part == 0 ? "" : ", ", part,
                          value == "y" ? fmt::format("y{}", i) : std::string(value), anew);
      ++part;
    }
    return text + "};\n      HandOver(slot, at, parts_of_x);\n";
  }

  // As what is read would be if it came from memory.
  std::string Carry() const {
    std::string text;
    int64_t carried = 0;
    for (const int64_t output : step_.carried) {
      if (output < 0) continue;
      text +=
          fmt::format("        carried[{} * kTileRows * kUnits] = Rounded<{}>(y{});\n", carried++,
                      MemoryTypeName(program_.outputs[static_cast<size_t>(output)]), output);
    }
    return text;
  }

  std::string Kept() const {
    std::string text;
    size_t output = program_.outputs.size();
    for (const ProductInput& product : step_.products) {
      if (product.kept)
        text += Store(output++, fmt::format("at.valid ? x{} : 0.0f", product.input));
    }
    return text;
  }

  std::string Stores() const {
    std::string text;
    for (size_t i = 0; i < program_.outputs.size(); ++i) text += Store(i, fmt::format("y{}", i));
    return text;
  }

  std::string Store(size_t output, const std::string& value) const {
    if (!IsStored(step_, output)) return "";
    int64_t offset = 0;
    for (size_t i = 0; i < output; ++i) {
      if (IsStored(step_, i)) offset += static_cast<int64_t>(SizeOf(OutputType(step_, i)));
    }
    return fmt::format("        Stage<{}>(outputs + {}, element, {});\n",
                       MemoryTypeName(OutputType(step_, output)), offset * kTileRows * tile_.units,
                       value);
  }

  const LoopStep& step_;
  const TypedProgram& program_;
  const LoopTile& tile_;
};

}  // namespace

std::string EmitLoop(const LoopStep& step, const LoopTile& tile) {
  std::string source(kLoopDeviceText);
  source += "\nnamespace turbolstm::cuda {\n";
  source += EmitComputeFunction({"step", step.program});
  source += Constants(step, tile);
  source += kBlockText;
  source += KernelText(step, tile).Write();
  return source;
}

}  // namespace turbolstm::cuda
