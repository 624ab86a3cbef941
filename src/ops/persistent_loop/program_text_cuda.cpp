#include "ops/persistent_loop/program_text_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "ops/persistent_loop/cluster_kernel_text_cuda.h"
#include "ops/persistent_loop/device_code_cuda.h"
#include "ops/persistent_loop/kernel_text_cuda.h"
#include "ops/persistent_loop/role_text_cuda.h"
#include "ops/persistent_loop/row_text_cuda.h"
#include "ops/pointwise/emitter_cuda.h"

namespace turbolstm::cuda {
namespace {

void Replace(std::string* text, std::string_view what, const std::string& by) {
  text->replace(text->find(what), what.size(), by);
}

// How the reader at the first step of a walk begins.
constexpr std::string_view kFirstAnew =
    "resets && at.there && resets[(head.general.reverse ? steps - 1 : 0) * batch + at.b] == "
    "kFromZeros ? kFromZeros : 1";

// What the program makes of the kernel's text.
class KernelText {
 public:
  KernelText(const LoopStep& step, const LoopTile& tile)
      : step_(step), program_(step.program), tile_(tile) {}

  std::string Write() const {
    std::string mover(kMoverText);
    Replace(&mover, "@fetch@", Fetch());
    Replace(&mover, "@put@", Put());
    std::string text(is_cluster()          ? kClusterKernelText
                     : tile_.finishing > 0 ? kRoleText
                                           : kKernelText);
    Replace(&text, "@inits@", HandOver(is_cluster() ? "0, tile" : "slot", "0.0f", kFirstAnew));
    Replace(&text, "@biases@", Biases());
    if (is_cluster()) {
      Replace(&text, "@anew@", Anew());
      Replace(&text, "@flags@", Flags());
      Replace(&text, "@element@", FlaggedElement());
      ReplaceStep(&text, "n + 1, tile");
      return mover + text;
    }
    // What a step needs besides is under way while the block waits, unless two tiles take a turn.
    const bool early = tile_.together == 1;
    Replace(&text, "@early@", early ? "      constexpr int j = 0;\n" + Element() : "");
    Replace(&text, "@late@", early ? "" : Element());
    if (tile_.finishing > 0) {
      Replace(&text, "@send@", Send("sums", "slot_of(summed.s, summed.tile + j)"));
    }
    Replace(&text, "@clear@", tile_.splits > 1 ? "          ClearSums(old, part);\n" : "");
    Replace(&text, "@finish@", std::string(kFinishText));
    Replace(&text, "@products@", Products());
    ReplaceStep(&text, "slot");
    return mover + text;
  }

 private:
  bool is_cluster() const { return tile_.exchange != Exchange::kMemory; }

  void ReplaceStep(std::string* text, std::string_view place) const {
    Replace(text, "@results@", Results());
    Replace(text, "@declarations@", Declarations());
    Replace(text, "@inputs@", Inputs());
    Replace(text, "@sums@", Sums());
    Replace(text, "@arguments@", ComputeArguments({"step", program_}));
    Replace(text, "@parts@", HandOver(place, "y", "anew"));
    Replace(text, "@carry@", Carry());
    Replace(text, "@kept@", Kept());
    Replace(text, "@stores@", Stores());
  }

  // Whether an input has nothing in memory: it is the product.
  bool IsProductAlone(size_t input) const {
    return std::any_of(step_.products.begin(), step_.products.end(),
                       [&](const ProductInput& p) { return p.input == input && !p.reads; });
  }

  // Read by who needs it, at every step.
  bool IsDirect(size_t input) const {
    return !IsProductAlone(input) && step_.carried[input] < 0 && !IsStaged(step_, input);
  }

  // Whether who reads this step's x begins anew: behind a reset, or, in reverse, behind padding.
  std::string Anew() const {
    if (step_.x.adjoint) {
      return "      const int anew = at.valid && resets && resets[t * batch + at.b];\n";
    }
    const std::string_view reader = step_.x.forward ? "(t + 1)" : "(t - 1)";
    return fmt::format(
        "      const int reset = at.there && s + 1 < steps && resets ? resets[{} * batch + at.b] : "
        "0;\n"
        "      const int anew = reset != 0 ? reset : {};\n",
        reader, step_.x.forward ? "0" : "!at.valid");
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
                                 tile_.tile_rows * Chunks(size), Chunks(size),
                                 AddressText(step_.inputs[i], i, HasPastText(step_.inputs[i])),
                                 size, offset, 16 / size));
      offset += tile_.tile_rows * tile_.units * size;
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
      const int64_t chunks = tile_.tile_rows * Chunks(size);
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
            there, first, Chunks(size), size, i, RowNumberText(step_.outputs[i], "b", "t"), name,
            16 / size));
      }
      offset += tile_.tile_rows * tile_.units * size;
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

  // In clusters, moving warps have found out what holds for a sequence.
  std::string FlaggedElement() const {
    std::string text = R"(      Place at =
          PlaceOf((first_tile + tile) * kTileRows, first_unit, t, steps, batch, nullptr);
      const int flags = at.there ? all_flags[place * kTileRows + at.row] : 0;
      at.valid = at.there && flags & kIsValid;
      const int anew = flags & kBeginsFromZeros ? kFromZeros : flags & kBeginsAnew ? 1 : 0;
      const int element = at.row * kUnits + at.unit;
      float* const carried = all_carried + tile * kCarried * kTileRows * kUnits + element;
)";
    return text + Bits();
  }

  // Inputs of which a flag tells whether they read a step before.
  bool IsFlagged(size_t input) const {
    return step_.carried[input] >= 0 || (IsDirect(input) && step_.inputs[input].delay > 0);
  }

  std::string Flags() const {
    std::string text;
    int bit = kFirstFlag;
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (!IsFlagged(i)) continue;
      text += fmt::format("  if (at.valid && {}) flags |= {};\n", HasPastText(step_.inputs[i]),
                          1 << bit++);
    }
    return text;
  }

  // Whether an input of a valid element reads a step before.
  std::string Past(size_t input) const {
    if (!is_cluster()) return HasPastText(step_.inputs[input]);
    int bit = kFirstFlag;
    for (size_t i = 0; i < input; ++i) bit += IsFlagged(i) ? 1 : 0;
    return fmt::format("flags & {}", 1 << bit);
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
            i, Past(i), InitText(rows, i), MemoryTypeName(program_.inputs[i]));
      } else if (IsDirect(i)) {
        const InputKind kind = program_.program.inputs[i];
        const bool by_column = kind == InputKind::kElement || kind == InputKind::kRowVector;
        text += fmt::format(
            "      const char* row{0} = nullptr;\n"
            "      if (at.valid) row{0} = {1};\n"
            "      const auto bits{0} = LoadBits<{2}>(row{0}, {3});\n",
            i, AddressText(step_.inputs[i], i, Past(i)), MemoryTypeName(program_.inputs[i]),
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
        offset += tile_.tile_rows * tile_.units * static_cast<int64_t>(SizeOf(program_.inputs[i]));
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

  // What is summed up for other blocks goes to them.
  std::string Send(std::string_view sums, std::string_view slot) const {
    if (tile_.splits == 1) return "";
    return fmt::format("        {}SendSums({}, {}, part);\n",
                       tile_.finishing > 0 ? "" : "if (multiplied) ", slot, sums);
  }

  // The sums of an element, of all blocks that share its columns.
  std::string Products() const {
    const bool roles = tile_.finishing > 0;
    std::string text;
    if (!roles) text += Send("sums + j * kSumFloats", "slot");
    text += "        float products[kGates] = {};\n";
    for (size_t g = 0; g < step_.products.size(); ++g) {
      text +=
          fmt::format("        if (multiplied && at.valid) products[{0}] = {1};\n", g,
                      roles ? fmt::format("sums_of_last[j][{}]", g)
                            : fmt::format("SumOf(sums + j * kSumFloats, at.row, (split * kGates "
                                          "+ {}) * kUnits + at.unit)",
                                          g));
    }
    if (tile_.splits > 1) {
      text += "        if (multiplied) AddPeerSums(slot, part, at, head.fault, &lost, products);\n";
    }
    return text;
  }

  std::string Sums() const {
    std::string text;
    for (size_t g = 0; g < step_.products.size(); ++g) {
      text += fmt::format(
          "        x{0} += bias{1};\n"
          "        if (multiplied) x{0} += {2};\n",
          step_.products[g].input, g,
          is_cluster() ? fmt::format("exchange.Sum(n, tile, at.row, {} * kUnits + at.unit)", g)
                       : fmt::format("products[{}]", g));
    }
    return text;
  }

  std::string HandOver(std::string_view place, std::string_view value,
                       std::string_view anew) const {
    std::string text = "      const Product::Bits parts_of_x[kPartsOfX] = {";
    int part = 0;
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      if (step_.x_columns[i] < 0) continue;
      text += fmt::format("{}Handed<{}>(head, at, {}, {})", part == 0 ? "" : ", ", part,
                          value == "y" ? fmt::format("y{}", i) : std::string(value), anew);
      ++part;
    }
    return text + fmt::format("}};\n      {}HandOver({}, at, parts_of_x);\n",
                              is_cluster() ? "exchange." : "", place);
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
                       MemoryTypeName(OutputType(step_, output)),
                       offset * tile_.tile_rows * tile_.units, value);
  }

  static constexpr int kFirstFlag = 3;  // behind those of cluster_kernel_text_cuda.h

  const LoopStep& step_;
  const TypedProgram& program_;
  const LoopTile& tile_;
};

}  // namespace

std::string EmitKernel(const LoopStep& step, const LoopTile& tile) {
  return KernelText(step, tile).Write();
}

}  // namespace turbolstm::cuda
