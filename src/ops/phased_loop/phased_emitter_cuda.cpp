#include "ops/phased_loop/phased_emitter_cuda.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "ops/persistent_loop/device_code_cuda.h"
#include "ops/persistent_loop/row_text_cuda.h"
#include "ops/persistent_loop/tile_cuda.h"
#include "ops/phased_loop/device_text_cuda.h"
#include "ops/phased_loop/phased_text_cuda.h"
#include "ops/phased_loop/phased_tile_cuda.h"
#include "ops/pointwise/emitter_cuda.h"

namespace turbolstm::cuda {
namespace {

std::string_view ProductType(const PhasedStep& step) {
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

void Replace(std::string* text, std::string_view what, const std::string& by) {
  text->replace(text->find(what), what.size(), by);
}

class PhasedText {
 public:
  PhasedText(const PhasedStep& step, const PhasedTile& tile) : step_(step), tile_(tile) {
    for (size_t i = 0; i < step.phases.size(); ++i) {
      offsets_.push_back(group_bytes_);
      group_bytes_ += tile.tiles * kSlots * ExchangeBytes(step, tile, i);
      const auto* product = std::get_if<PhasedProduct>(&step.phases[i]);
      if (!product) continue;
      weights_.push_back(weight_chunks_);
      weight_chunks_ += WeightBytes(step, tile, *product) / 16;
      products_.push_back(product);
    }
  }

  std::string Write() {
    std::string source(kPhasedDeviceText);
    source += "\nnamespace turbolstm::cuda {\n";
    for (size_t i = 0; i < step_.programs.size(); ++i) source += EmitComputeFunction(Named(i));
    source += Constants();
    source += kPhasedText;
    std::string kernel(kPhasedKernelText);
    Replace(&kernel, "@weights@", LoadWeights());
    Replace(&kernel, "@once@", Once());
    Replace(&kernel, "@values@", Values());
    Replace(&kernel, "@loads@", Loads() + Carried());
    Replace(&kernel, "@phases@", Phases());
    Replace(&kernel, "@end@", End());
    return source + kernel;
  }

 private:
  NamedTypedProgram Named(size_t program) const {
    return {fmt::format("step{}", program), step_.programs[program]};
  }

  std::string Constants() const {
    std::string text = fmt::format(
        R"(
constexpr int kWarps = {};
constexpr int kAllThreads = {};
constexpr int kUnits = {};  // of this block
constexpr int kAllUnits = {};
constexpr int kParts = {};  // blocks of a group
constexpr int kPaddedUnits = kUnits * kParts;
constexpr int kTileRows = {};
constexpr int kTiles = {};
constexpr int kSumStride = {};
constexpr int kSumFloats = kWarps * kTileRows * kSumStride;
constexpr int kWeightChunks = {};
constexpr int kGroupBytes = {};
using Product = {};
using Args = PhasedArgs<{}, {}, {}>;
)",
        kPhasedWarps, kPhasedThreads, tile_.units, step_.units, tile_.parts, kTileRows, tile_.tiles,
        PhasedSumStride(step_, tile_), weight_chunks_, group_bytes_, ProductType(step_),
        products_.size(), std::max<size_t>(1, step_.inputs), std::max<size_t>(1, step_.outputs));
    return text;
  }

  static std::string Shape(const PhasedProduct& product) {
    return fmt::format("ProductShape<{}, {}>", product.results.size(), product.x.size());
  }

  std::string LoadWeights() const {
    std::string text;
    for (size_t p = 0; p < products_.size(); ++p) {
      text += fmt::format("    LoadWeights<{}>(args.products[{}], first_unit, shared + {});\n",
                          Shape(*products_[p]), p, weights_[p]);
    }
    return text;
  }

  // What is the same at all steps and rows is read once.
  static bool IsOnce(const PhasedPlace& place) {
    return place.rows.kind == RowKind::kShared && place.rows.delay == 0;
  }

  static std::string Bits(const PhasedPlace& place, std::string_view row, std::string_view unit) {
    return fmt::format("{0}::Widen(LoadBits<{0}>({1}, {2}))", MemoryTypeName(place.dtype), row,
                       place.per_unit ? fmt::format("{} + {}", place.column, unit)
                                      : fmt::format("{}", place.column));
  }

  std::string Once() const {
    std::string text;
    for (const PhasedLoad& load : step_.loads) {
      if (!IsOnce(load.from)) continue;
      const std::string unit = "first_unit + static_cast<int>(threadIdx.x) % kUnits";
      text +=
          fmt::format("  const float once{} = {} < kAllUnits ? {} : 0.0f;\n", load.value, unit,
                      Bits(load.from, fmt::format("args.in[{}].data", load.from.operand), unit));
    }
    for (size_t k = 0; k < step_.carried.size(); ++k) {
      text += fmt::format("  float carried{}[kTiles] = {{}};\n", k);
    }
    return text;
  }

  std::string Values() const {
    std::string text;
    for (int v = 0; v < step_.values; ++v) text += fmt::format("    float v{}[kTiles];\n", v);
    return text;
  }

  std::string Loads() const {
    std::string text;
    for (const PhasedLoad& load : step_.loads) {
      if (IsOnce(load.from)) {
        text += fmt::format("        v{0}[i] = once{0};\n", load.value);
        continue;
      }
      text += fmt::format(
          "        {{\n"
          "          const char* row = nullptr;\n"
          "          if (at.valid) row = {};\n"
          "          v{}[i] = {};\n"
          "        }}\n",
          AddressText(load.from.rows, load.from.operand, HasPastText(load.from.rows)), load.value,
          Bits(load.from, "row", "at.j"));
    }
    return text;
  }

  std::string Carried() const {
    std::string text;
    for (size_t k = 0; k < step_.carried.size(); ++k) {
      const PhasedCarried& carried = step_.carried[k];
      const LoopRows& rows = carried.from.rows;
      text += fmt::format(
          "        {{\n"
          "          const bool past = at.valid && {};\n"
          "          const char* row = nullptr;\n"
          "          if (at.valid && !past) row = {};\n"
          "          const float first = {};\n"
          "          v{}[i] = past ? carried{}[i] : first;\n"
          "        }}\n",
          HasPastText(rows), InitText(rows, carried.from.operand),
          rows.has_init ? Bits(carried.from, "row", "at.j") : "0.0f", carried.value, k);
    }
    return text;
  }

  std::string Phases() {
    std::string text;
    for (size_t i = 0; i < step_.phases.size(); ++i) {
      const auto& phase = step_.phases[i];
      if (const auto* program = std::get_if<PhasedProgram>(&phase)) text += Run(*program);
      if (const auto* product = std::get_if<PhasedProduct>(&phase)) text += Run(*product, i);
      if (const auto* sum = std::get_if<PhasedSum>(&phase)) text += Run(*sum, i);
    }
    return text;
  }

  static std::string ForEachTile(const std::string& body) {
    return "    if (has_element) {\n#pragma unroll\n"
           "      for (int i = 0; i < kTiles; ++i) {\n"
           "        const Place& at = places[i];\n" +
           body + "      }\n    }\n";
  }

  std::string Run(const PhasedProgram& program) const {
    std::string body = "        float y0 = 0.0f";
    for (size_t y = 1; y < program.outputs.size(); ++y) body += fmt::format(", y{} = 0.0f", y);
    body += ";\n";
    for (size_t x = 0; x < program.inputs.size(); ++x) {
      body += fmt::format("        const float x{} = v{}[i];\n", x, program.inputs[x]);
    }
    body += fmt::format("        if (at.valid) step{}_compute({});\n", program.program,
                        ComputeArguments(Named(program.program)));
    for (size_t y = 0; y < program.outputs.size(); ++y) {
      body += fmt::format("        v{}[i] = y{};\n", program.outputs[y], y);
    }
    return ForEachTile(body);
  }

  std::string Slot(size_t phase, std::string_view tile, std::string_view slot) const {
    return fmt::format("exchange + {} + ({} * kSlots + {}) * {}", offsets_[phase], tile, slot,
                       ExchangeBytes(step_, tile_, phase));
  }

  std::string Run(const PhasedProduct& product, size_t phase) {
    std::string hand_over, results;
    for (size_t q = 0; q < product.x.size(); ++q) {
      hand_over += fmt::format("        HandOver({}, at, {}, v{}[i]);\n", Slot(phase, "i", "now"),
                               q, product.x[q]);
    }
    for (size_t g = 0; g < product.results.size(); ++g) {
      std::string sum = fmt::format("SumOf(all_sums + i * kSumFloats, at, {})", g);
      for (const int added : product.added[g]) sum += fmt::format(" + v{}[i]", added);
      results += fmt::format("        v{}[i] = {};\n", product.results[g], sum);
    }
    const size_t number = next_product_++;
    return ForEachTile(hand_over) +
           fmt::format(R"(    __syncthreads();
    if (multiplies) {{
      for (int i = 0; i < kTiles; ++i) {{
        Multiply<{}>({}, shared + {}, all_sums + i * kSumFloats, &patience);
      }}
    }}{}
    __syncthreads();
)",
                       Shape(product), Slot(phase, "i", "now"), weights_[number],
                       number == 0 ? Clear() : "") +
           ForEachTile(results);
  }

  // Of what is handed over in any phase: see kSlots.
  std::string Clear() const {
    std::string text = " else {\n      for (int i = 0; i < kTiles; ++i) {\n";
    for (size_t i = 0; i < step_.phases.size(); ++i) {
      const std::string slot = Slot(i, "i", "(s + 2) % kSlots");
      if (const auto* product = std::get_if<PhasedProduct>(&step_.phases[i])) {
        text += fmt::format("        ClearX<{}>({}, first_unit);\n", Shape(*product), slot);
      } else if (std::holds_alternative<PhasedSum>(step_.phases[i])) {
        text += fmt::format("        ClearSum({}, part);\n", slot);
      }
    }
    return text + "      }\n      FenceDevice();\n    }";
  }

  std::string Run(const PhasedSum& sum, size_t phase) const {
    std::string all;
    for (const int of : sum.of) all += fmt::format("{}v{}[i]", all.empty() ? "" : " + ", of);
    return ForEachTile(fmt::format("        HandOverSum({}, at, part, {});\n",
                                   Slot(phase, "i", "now"), all)) +
           ForEachTile(fmt::format("        v{}[i] = AwaitSum({}, at, &patience);\n", sum.result,
                                   Slot(phase, "i", "now")));
  }

  std::string End() const {
    std::string text;
    for (const PhasedStore& store : step_.stores) {
      const std::string_view type = MemoryTypeName(store.to.dtype);
      text += fmt::format(
          "        if (at.there{}) {{\n"
          "          reinterpret_cast<{}::Bits*>(RowAt(args.out[{}], {}))[{}] =\n"
          "              static_cast<{}::Bits>({}::Narrow(at.valid ? v{}[i] : 0.0f));\n"
          "        }}\n",
          store.to.per_unit ? "" : " && at.j == 0", type, store.to.operand,
          RowNumberText(store.to.rows, "at.b", "t"),
          store.to.per_unit ? fmt::format("{} + at.j", store.to.column)
                            : fmt::format("{}", store.to.column),
          type, type, store.value);
    }
    for (size_t k = 0; k < step_.carried.size(); ++k) {
      text += fmt::format("        carried{}[i] = Rounded<{}>(v{}[i]);\n", k,
                          MemoryTypeName(step_.carried[k].from.dtype), step_.carried[k].next);
    }
    return text;
  }

  const PhasedStep& step_;
  const PhasedTile& tile_;
  std::vector<int64_t> offsets_;  // by phase: of what is handed over in it
  std::vector<int64_t> weights_;  // by product: of its weights, in chunks of 16 bytes
  std::vector<const PhasedProduct*> products_;
  int64_t group_bytes_ = 0;
  int64_t weight_chunks_ = 0;
  size_t next_product_ = 0;
};

}  // namespace

std::string EmitPhasedLoop(const PhasedStep& step, const PhasedTile& tile) {
  return PhasedText(step, tile).Write();
}

}  // namespace turbolstm::cuda
