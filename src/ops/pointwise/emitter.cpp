#include "ops/pointwise/emitter.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "base/error.h"

namespace turbolstm {
namespace {

constexpr std::string_view kHead = R"(// Emitted from pointwise programs; changes belong there.

#include <algorithm>
#include <array>
#include <limits>
#include <span>

#include "ops/cpu_target.h"
#include "ops/pointwise/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "{}"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "ops/pointwise/vector_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace turbolstm {{
namespace HWY_NAMESPACE {{
namespace {{
)";

constexpr std::string_view kTail = R"(
}}  // namespace

std::span<const PointwiseFunction> {0}Table() {{
  static constexpr std::array<PointwiseFunction, {1}> kTable{{{2}}};
  return kTable;
}}

}}  // namespace HWY_NAMESPACE
}}  // namespace turbolstm
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turbolstm {{

HWY_EXPORT({0}Table);

void {0}() {{
  static constexpr std::array<std::string_view, {1}> kTexts{{{3}}};
  ApplyCpuTargetFromEnvironment();
  const auto functions = HWY_DYNAMIC_DISPATCH({0}Table)();
  std::array<PointwiseRegistration, {1}> kernels;
  for (size_t i = 0; i < kernels.size(); ++i) kernels[i] = {{kTexts[i], functions[i]}};
  RegisterPointwiseKernels(kernels);
}}

}}  // namespace turbolstm
#endif
)";

// Vectors that a kernel works on at once. The chains of dependent instructions are long (a tanh
// after a sigmoid), so the processor's window would not reach from one vector to the next.
constexpr int kUnroll = 2;

// A literal that reads back as exactly this float.
std::string FloatLiteral(float value) {
  if (std::isnan(value)) return "std::numeric_limits<float>::quiet_NaN()";
  if (std::isinf(value)) {
    return value > 0 ? "std::numeric_limits<float>::infinity()"
                     : "-std::numeric_limits<float>::infinity()";
  }
  return fmt::format("{:a}f", value);
}

class KernelWriter {
 public:
  explicit KernelWriter(const NamedPointwiseProgram& named)
      : name_(named.name), program_(named.program), live_(named.program.LiveValues()) {}

  std::string Write() {
    Line("");
    Line("// {}", program_.Text());
    Line("void {}(const PointwiseArgs& args) {{", name_);
    Line("  const VectorTag d;");
    Line("  const auto lanes = static_cast<int64_t>(hn::Lanes(d));");
    WriteUniform();
    Line("  for (int64_t r = 0; r < args.rows; ++r) {{");
    WriteRow();
    Line("    int64_t j = 0;");
    Line("    for (; j + {0} * lanes <= args.n; j += {0} * lanes) {{", kUnroll);
    Line("      const size_t count = hn::Lanes(d);");
    WriteElements(kUnroll);
    Line("    }}");
    Line("    for (; j < args.n; j += lanes) {{");
    Line("      const auto count = static_cast<size_t>(std::min(lanes, args.n - j));");
    WriteElements(1);
    Line("    }}");
    Line("  }}");
    Line("}}");
    return text_;
  }

 private:
  template <typename... Args>
  void Line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  bool Is(size_t input, InputKind kind) const {
    return live_[input] && program_.inputs[input] == kind;
  }

  // What is the same for all elements.
  void WriteUniform() {
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (!Is(i, InputKind::kScalar)) continue;
      Line("  const Vector v{0} = hn::Set(d, ScalarAt(args.inputs[{0}], 0));", i);
    }
    for (size_t i = 0; i < program_.constants.size(); ++i) {
      const size_t value = program_.FirstConstant() + i;
      if (!live_[value]) continue;
      Line("  const Vector v{} = hn::Set(d, {});", value,
           FloatLiteral(static_cast<float>(program_.constants[i])));
    }
  }

  void WriteRow() {
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (Is(i, InputKind::kElement)) Line("    const RowPointer in{0}(args.inputs[{0}], r);", i);
      if (Is(i, InputKind::kRowVector)) Line("    const RowPointer in{0}(args.inputs[{0}], 0);", i);
      if (Is(i, InputKind::kColumn)) {
        Line(
            "    const Vector v{0} = "
            "hn::Set(d, ScalarAt(args.inputs[{0}], r * args.inputs[{0}].row_stride));",
            i);
      }
    }
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      Line("    const RowPointer out{0}(args.outputs[{0}], r);", i);
    }
  }

  // `copies` vectors at once, instruction by instruction. All loads come before all stores, since
  // outputs may lie on inputs.
  void WriteElements(int copies) {
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      if (!Is(i, InputKind::kElement) && !Is(i, InputKind::kRowVector)) continue;
      for (int copy = 0; copy < copies; ++copy) {
        Line("      const Vector {} = in{}.Load(d, j + {} * lanes, count);", Value(i, copy), i,
             copy);
      }
    }
    for (size_t i = 0; i < program_.code.size(); ++i) {
      const int32_t value = program_.FirstResult() + static_cast<int32_t>(i);
      if (!live_[value]) continue;
      for (int copy = 0; copy < copies; ++copy) WriteInstruction(value, program_.code[i], copy);
    }
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      for (int copy = 0; copy < copies; ++copy) {
        Line("      out{}.Store(d, {}, j + {} * lanes, count);", i,
             Value(program_.outputs[i], copy), copy);
      }
    }
  }

  void WriteInstruction(int32_t value, const PointwiseInstruction& instruction, int copy) {
    const auto& [op, a, b, c] = instruction;
    std::string operands = Value(a, copy);
    if (OperandCount(op) > 1) operands += ", " + Value(b, copy);
    if (OperandCount(op) > 2) operands += ", " + Value(c, copy);
    Line("      const Vector {} = Apply<PointwiseOp::k{}>(d, {});", Value(value, copy),
         PascalCaseName(op), operands);
  }

  // The name of a value; only what varies along a row has copies.
  std::string Value(int32_t value, int copy) const {
    const bool input = value < program_.FirstConstant();
    const bool uniform = input ? program_.inputs[value] == InputKind::kColumn ||
                                     program_.inputs[value] == InputKind::kScalar
                               : value < program_.FirstResult();
    return uniform ? fmt::format("v{}", value) : fmt::format("v{}_{}", value, copy);
  }

  const std::string& name_;
  const PointwiseProgram& program_;
  const std::vector<bool> live_;
  std::string text_;
};

}  // namespace

std::string EmitPointwiseSource(std::span<const NamedPointwiseProgram> programs,
                                std::string_view register_function, std::string_view include_path) {
  CheckIdentifier(register_function);
  std::string source = fmt::format(fmt::runtime(kHead), include_path);
  std::set<std::string> names;
  std::string table, texts;
  for (const NamedPointwiseProgram& named : programs) {
    CheckIdentifier(named.name);
    TL_CHECK(names.insert(named.name).second, "[emit pointwise] the name {} occurs twice",
             named.name);
    named.program.Validate();
    source += KernelWriter(named).Write();
    table += fmt::format("\n      &{},", named.name);
    texts += fmt::format("\n      \"{}\",", named.program.Text());
  }
  source += fmt::format(fmt::runtime(kTail), register_function, programs.size(), table, texts);
  return source;
}

void WritePointwiseSource(const std::string& path, std::span<const NamedPointwiseProgram> programs,
                          std::string_view register_function) {
  const std::string file = std::filesystem::path(path).filename().string();
  std::ofstream out(path);
  out << EmitPointwiseSource(programs, register_function, file) << std::flush;
  TL_CHECK(out.good(), "[emit pointwise] cannot write {}", path);
}

}  // namespace turbolstm
