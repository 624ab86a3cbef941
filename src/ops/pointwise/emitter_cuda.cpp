#include "ops/pointwise/emitter_cuda.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "base/error.h"
#include "ops/pointwise/device_text_cuda.h"
#include "ops/pointwise/scan_emitter_cuda.h"

namespace turbolstm::cuda {
namespace {

class KernelWriter {
 public:
  explicit KernelWriter(const NamedTypedProgram& named)
      : named_(named),
        name_(named.name),
        typed_(named.typed),
        program_(named.typed.program),
        live_(program_.LiveValues()) {}

  std::string Compute() {
    WriteCompute();
    return text_;
  }

  std::string Write() {
    Line("");
    Line("// {}", KernelKey(typed_));
    WriteCompute();
    if (typed_.time_loop) {
      WriteTimeLoop();
      if (typed_.scan_input >= 0) text_ += EmitScanKernel(named_);
    } else {
      WritePlain();
      WriteGeneral();
    }
    return text_;
  }

 private:
  template <typename... Args>
  void Line(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  size_t Inputs() const { return program_.inputs.size(); }
  size_t Outputs() const { return program_.outputs.size(); }
  std::string_view InputType(size_t i) const { return MemoryTypeName(typed_.inputs[i]); }
  std::string_view OutputType(size_t i) const { return MemoryTypeName(typed_.outputs[i]); }
  // The same for all rows, or for all elements of a row.
  bool SharedByRows(size_t i) const {
    return program_.inputs[i] == InputKind::kRowVector || program_.inputs[i] == InputKind::kScalar;
  }
  bool SharedByColumns(size_t i) const {
    return program_.inputs[i] == InputKind::kColumn || program_.inputs[i] == InputKind::kScalar;
  }
  std::string ArgsType(std::string_view kind) const {
    return fmt::format("{}Args<{}, {}>", kind, Inputs(), Outputs());
  }

  // One element: values in, values out.
  void WriteCompute() {
    std::string parameters;
    for (size_t i = 0; i < Inputs(); ++i) {
      if (live_[i]) parameters += fmt::format("float v{}, ", i);
    }
    for (size_t i = 0; i < Outputs(); ++i) {
      parameters += fmt::format("{}float& y{}", i == 0 ? "" : ", ", i);
    }
    Line("__device__ __forceinline__ void {}_compute({}) {{", name_, parameters);
    for (size_t i = 0; i < program_.constants.size(); ++i) {
      const size_t value = program_.FirstConstant() + i;
      if (!live_[value]) continue;
      Line("  const float v{} = {};", value,
           FloatLiteral(static_cast<float>(program_.constants[i])));
    }
    for (size_t i = 0; i < program_.code.size(); ++i) {
      const size_t value = program_.FirstResult() + i;
      if (!live_[value]) continue;
      const auto& [op, a, b, c] = program_.code[i];
      std::string operands = fmt::format("v{}", a);
      if (OperandCount(op) > 1) operands += fmt::format(", v{}", b);
      if (OperandCount(op) > 2) operands += fmt::format(", v{}", c);
      Line("  const float v{} = {}({});", value, PascalCaseName(op), operands);
    }
    for (size_t i = 0; i < Outputs(); ++i) Line("  y{} = v{};", i, program_.outputs[i]);
    Line("}}");
  }

  void WritePlain() {
    Line("template <int V>");
    Line("__device__ __forceinline__ void {}_rows(const {}& args) {{", name_, ArgsType("Plain"));
    Line("#pragma unroll 1");
    Line("  for (int s = blockIdx.z; s < args.head.steps; s += gridDim.z) {{");
    Line("#pragma unroll 1");
    Line("    for (int b = FirstRow<int>(); b < args.head.batch; b += RowStride<int>()) {{");
    Line("      const int left = StepsLeft(args.head, s, b);");
    for (size_t i = 0; i < Inputs(); ++i) {
      if (!live_[i]) continue;
      if (SharedByRows(i)) {
        Line("      const char* in{0} = args.in[{0}].data;", i);
      } else {
        Line("      const char* in{0} = RowOf(args.in[{0}], s, b);", i);
      }
    }
    for (size_t i = 0; i < Outputs(); ++i) {
      Line("      char* out{0} = RowOf(args.out[{0}], s, b);", i);
    }
    Line("#pragma unroll 1");
    Line(
        "      for (int j = FirstColumn<int, V>(); j < args.head.n; j += ColumnStride<int, V>()) "
        "{{");
    WritePlainElements();
    Line("      }}");
    Line("    }}");
    Line("  }}");
    Line("}}");
    for (const auto& [variant, v] :
         {std::pair(KernelVariant::kPlain, 1), std::pair(KernelVariant::kPlain4, 4)}) {
      WriteSignature(variant, "Plain");
      Line("  {}_rows<{}>(args);", name_, v);
      Line("}}");
    }
  }

  void WritePlainElements() {
    std::string arguments, outputs;
    for (size_t i = 0; i < Inputs(); ++i) {
      if (!live_[i]) continue;
      if (SharedByColumns(i)) {
        Line("        const Pack<V> x{0} = Spread<V>(Load<{1}, 1>(in{0}, 0).e[0]);", i,
             InputType(i));
      } else {
        Line("        const Pack<V> x{0} = Load<{1}, V>(in{0}, j);", i, InputType(i));
      }
      arguments += SharedByRows(i) ? fmt::format("x{}.e[k], ", i)
                                   : fmt::format("Kept(x{0}.e[k], left, args.beyond[{0}]), ", i);
    }
    for (size_t i = 0; i < Outputs(); ++i) {
      outputs += fmt::format("{}y{}", i == 0 ? "" : ", ", i);
      arguments += fmt::format("{}y{}.e[k]", i == 0 ? "" : ", ", i);
    }
    Line("        Pack<V> {};", outputs);
    Line("#pragma unroll");
    Line("        for (int k = 0; k < V; ++k) {}_compute({});", name_, arguments);
    for (size_t i = 0; i < Outputs(); ++i) {
      Line("        StoreKept<{0}, V>(out{1}, j, y{1}, left);", OutputType(i), i);
    }
  }

  // Rows are looked up one by one. All loads come before all stores, since outputs may lie on
  // inputs.
  void WriteGeneral() {
    WriteSignature(KernelVariant::kGeneral, "General");
    Line("  const Sequences& sequences = args.head.sequences;");
    Line("  for (long long s = blockIdx.z; s < args.head.range.steps; s += gridDim.z) {{");
    Line("    const long long t = args.head.range.time_begin + s;");
    WriteElementLoops();
    WriteLookedUpElement("        ");
    Line("      }}");
    Line("    }}");
    Line("  }}");
    Line("}}");
  }

  void WriteLookedUpElement(std::string_view indent) {
    for (size_t i = 0; i < Outputs(); ++i) Line("{}float y{} = 0.0f;", indent, i);
    Line("{}if (!IsPadding(sequences, args.head.range, t, b)) {{", indent);
    for (size_t i = 0; i < Inputs(); ++i) {
      if (!live_[i]) continue;
      Line("{}  const float x{} = LoadOrZero<{}>({}, {});", indent, i, InputType(i), RowOf(i),
           SharedByColumns(i) ? "0" : "j");
    }
    Line("{}  {}_compute({});", indent, name_, ComputeArguments());
    Line("{}}}", indent);
    for (size_t i = 0; i < Outputs(); ++i) {
      Line("{0}Store<{1}>(RowAddress(args.out[{2}], sequences, t, b), j, y{2});", indent,
           OutputType(i), i);
    }
  }

  // Each thread walks through all steps of an element.
  void WriteTimeLoop() {
    WriteLeanLoop();
    WriteSignature(KernelVariant::kGeneral, "TimeLoop");
    Line("  const Sequences& sequences = args.head.sequences;");
    Line("  const RowRange& range = args.head.range;");
    Line("  const long long way = args.head.reverse ? -1 : 1;");
    Line("  const long long first = range.time_begin + (way < 0 ? range.steps - 1 : 0);");
    Line("  {{");
    WriteElementLoops();
    Line("        if (args.head.lean) {{");
    Line("          {}_lean(args, first, way, b, j);", name_);
    Line("          continue;");
    Line("        }}");
    Line("#pragma unroll 1");
    Line("        for (long long s = 0; s < range.steps; ++s) {{");
    Line("          const long long t = first + s * way;");
    WriteLookedUpElement("          ");
    Line("        }}");
    Line("      }}");
    Line("    }}");
    Line("  }}");
    Line("}}");
  }

  // Loads and addresses of a step do not wait for those of the step before.
  void WriteLeanLoop() {
    Line("__device__ __forceinline__ void {}_lean(const {}& args, long long first, long long way,",
         name_, ArgsType("TimeLoop"));
    Line("    long long b, long long j) {{");
    Line("  const Sequences& sequences = args.head.sequences;");
    Line("  const RowRange& range = args.head.range;");
    Line("  const long long length = LengthOf(sequences, b);");
    if (AnyCarried()) {
      Line("  const long long edge = way > 0 ? 0 : length - 1;");
      Line("  const unsigned char* resets =");
      Line("      sequences.resets ? sequences.resets + first * sequences.batch + b : nullptr;");
      Line("  bool reset_before = false;");
    }
    for (size_t i = 0; i < Inputs(); ++i) {
      if (live_[i]) WriteLeanInput(i);
    }
    for (size_t i = 0; i < Outputs(); ++i) {
      Line("  Track out{0} = TrackOf<{1}>(args.out[{0}], sequences, first, way, b, j);", i,
           OutputType(i));
    }
    Line("#pragma unroll 1");
    Line("  for (long long s = 0; s < range.steps; ++s) {{");
    Line("    const long long t = first + s * way;");
    Line("    [[maybe_unused]] const bool more = s + kStepsAhead < range.steps;");
    if (AnyCarried()) {
      Line("    const unsigned char reset = resets ? *resets : 0;");
      Line("    if (resets) resets += way * sequences.batch;");
    }
    for (size_t i = 0; i < Inputs(); ++i) {
      if (live_[i] && !SharedByRows(i)) WriteLeanLoad(i);
    }
    for (size_t i = 0; i < Outputs(); ++i) Line("    float y{} = 0.0f;", i);
    Line("    if (!(range.padded && t >= length)) {}_compute({});", name_, ComputeArguments());
    for (size_t i = 0; i < Outputs(); ++i) {
      Line("    Store<{0}>(out{1}.element, 0, y{1});", OutputType(i), i);
      Line("    Advance(out{});", i);
    }
    for (size_t i = 0; i < Inputs(); ++i) {
      if (MayBeCarried(i)) WriteLeanCarry(i);
    }
    if (AnyCarried()) Line("    reset_before = reset != 0;");
    Line("  }}");
    Line("}}");
  }

  void WriteLeanInput(size_t i) {
    const std::string_view column = SharedByColumns(i) ? "0" : "j";
    if (SharedByRows(i)) {
      Line("  const float x{0} = LoadOrZero<{1}>(args.in[{0}].data, {2});", i, InputType(i),
           column);
      return;
    }
    Line("  Track in{0} = TrackOf<{1}>(args.in[{0}], sequences, first, way, b, {2});", i,
         InputType(i), column);
    if (!MayBeCarried(i)) return;
    Line("  float next{} = 0.0f, init{} = 0.0f;", i, i);
    Line("  if (args.carried[{}] >= 0) {{", i);
    Line("    next{0} = FirstCarried<{1}>(args.in[{0}], sequences, first, b, j);", i, InputType(i));
    Line("    init{0} = InitCarried<{1}>(args.in[{0}], b, j);", i, InputType(i));
    Line("  }}");
  }

  void WriteLeanLoad(size_t i) {
    if (!MayBeCarried(i)) {
      Line("    const float x{0} = Follow<{1}>(in{0}, more);", i, InputType(i));
      Line("    Advance(in{});", i);
      return;
    }
    Line("    float x{} = 0.0f;", i);
    Line("    if (args.carried[{}] >= 0) {{", i);
    Line("      const bool cut = t == edge || (args.in[{}].adjoint ? reset_before : reset != 0);",
         i);
    Line("      x{0} = !cut ? next{0} : reset == kFromZeros ? 0.0f : init{0};", i);
    Line("    }} else {{");
    Line("      x{0} = Follow<{1}>(in{0}, more);", i, InputType(i));
    Line("      Advance(in{});", i);
    Line("    }}");
  }

  void WriteLeanCarry(size_t i) {
    for (size_t k = 0; k < Outputs(); ++k) {
      if (!ReadsOutput(i, k)) continue;
      Line("    if (args.carried[{0}] == {1}) next{0} = Rounded<{2}>(y{1});", i, k, InputType(i));
    }
  }

  // Whether an input could be what an output was one step before.
  bool ReadsOutput(size_t input, size_t output) const {
    return live_[input] && program_.inputs[input] == InputKind::kElement &&
           typed_.inputs[input] == typed_.outputs[output];
  }
  bool AnyCarried() const {
    for (size_t i = 0; i < Inputs(); ++i) {
      if (MayBeCarried(i)) return true;
    }
    return false;
  }
  bool MayBeCarried(size_t input) const {
    for (size_t k = 0; k < Outputs(); ++k) {
      if (ReadsOutput(input, k)) return true;
    }
    return false;
  }

  std::string RowOf(size_t i) const {
    return SharedByRows(i) ? fmt::format("args.in[{}].data", i)
                           : fmt::format("OperandRow(args.in[{}], sequences, t, b)", i);
  }

  // Of live inputs and all outputs.
  std::string ComputeArguments() const {
    std::string arguments;
    for (size_t i = 0; i < Inputs(); ++i) {
      if (live_[i]) arguments += fmt::format("x{}, ", i);
    }
    for (size_t i = 0; i < Outputs(); ++i) arguments += fmt::format("{}y{}", i == 0 ? "" : ", ", i);
    return arguments;
  }

  void WriteElementLoops() {
    Line("    for (long long b = FirstRow<long long>(); b < args.head.sequences.batch;");
    Line("         b += RowStride<long long>()) {{");
    Line("      for (long long j = FirstColumn<long long, 1>(); j < args.head.n;");
    Line("           j += ColumnStride<long long, 1>()) {{");
  }

  void WriteSignature(KernelVariant variant, std::string_view args) {
    Line("extern \"C\" __global__ void __launch_bounds__(kBlockThreads)");
    Line("    {}(const __grid_constant__ {} args) {{", KernelName(named_, variant), ArgsType(args));
    Line("  AwaitPredecessors();");
  }

  const NamedTypedProgram& named_;
  const std::string& name_;
  const TypedProgram& typed_;
  const PointwiseProgram& program_;
  const std::vector<bool> live_;
  std::string text_;
};

std::string EmitKernels(std::span<const NamedTypedProgram> programs) {
  std::string source = "\nnamespace turbolstm::cuda {\n";
  std::set<std::string> names;
  for (const NamedTypedProgram& named : programs) {
    CheckIdentifier(named.name);
    TL_CHECK(names.insert(named.name).second, "[emit pointwise] the name {} occurs twice",
             named.name);
    Validate(named.typed);
    source += KernelWriter(named).Write();
  }
  return source + "\n}  // namespace turbolstm::cuda\n";
}

std::string FunctionTable(const NamedTypedProgram& named) {
  std::string table;
  for (int i = 0; i < kKernelVariants; ++i) {
    const std::string kernel = KernelName(named, static_cast<KernelVariant>(i));
    table += i == 0 ? "" : ", ";
    table += kernel.empty() ? "nullptr" : fmt::format("reinterpret_cast<const void*>(&{})", kernel);
  }
  return table;
}

}  // namespace

std::string FloatLiteral(float value) {
  if (std::isnan(value)) return "__int_as_float(0x7fc00000)";
  if (std::isinf(value))
    return value > 0 ? "__int_as_float(0x7f800000)" : "__int_as_float(0xff800000)";
  return fmt::format("{:a}f", value);
}

std::string_view MemoryTypeName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "Fp32";
    case DType::kBFloat16:
      return "Bf16";
    case DType::kFloat16:
      return "Fp16";
    default:
      Fail("[pointwise] got the type {}, wants float32, bfloat16 or float16", Name(dtype));
  }
}

std::string EmitComputeFunction(const NamedTypedProgram& named) {
  return KernelWriter(named).Compute();
}

std::string ComputeArguments(const NamedTypedProgram& named) {
  const std::vector<bool> live = named.typed.program.LiveValues();
  std::string arguments;
  for (size_t i = 0; i < named.typed.program.inputs.size(); ++i) {
    if (live[i]) arguments += fmt::format("x{}, ", i);
  }
  for (size_t i = 0; i < named.typed.program.outputs.size(); ++i) {
    arguments += fmt::format("{}y{}", i == 0 ? "" : ", ", i);
  }
  return arguments;
}

std::string KernelName(const NamedTypedProgram& named, KernelVariant variant) {
  if (named.typed.time_loop) {
    if (variant == KernelVariant::kGeneral) return named.name + "_time_loop";
    const bool scan = variant == KernelVariant::kPlain && named.typed.scan_input >= 0;
    return scan ? named.name + "_scan" : "";
  }
  if (variant == KernelVariant::kGeneral) return named.name + "_general";
  return named.name + (variant == KernelVariant::kPlain ? "_plain" : "_plain4");
}

void Validate(const TypedProgram& typed) {
  typed.program.Validate();
  TL_CHECK(typed.inputs.size() == typed.program.inputs.size(),
           "[pointwise] got types of {} inputs, wants {}", typed.inputs.size(),
           typed.program.inputs.size());
  TL_CHECK(typed.outputs.size() == typed.program.outputs.size(),
           "[pointwise] got types of {} outputs, wants {}", typed.outputs.size(),
           typed.program.outputs.size());
  if (typed.scan_input >= 0) {
    const auto count = [](const auto& all) { return static_cast<int>(all.size()); };
    TL_CHECK(typed.time_loop && typed.scan_input < count(typed.inputs) && typed.scan_output >= 0 &&
                 typed.scan_output < count(typed.outputs),
             "[pointwise] input {} of {} and output {} of {} are no state of a loop over time",
             typed.scan_input, count(typed.inputs), typed.scan_output, count(typed.outputs));
  }
  for (DType dtype : typed.inputs) MemoryTypeName(dtype);
  for (DType dtype : typed.outputs) MemoryTypeName(dtype);
}

std::string KernelKey(const TypedProgram& typed) {
  std::string key = typed.program.Text() + ";";
  for (DType dtype : typed.inputs) key += fmt::format(" {}", Name(dtype));
  key += " ->";
  for (DType dtype : typed.outputs) key += fmt::format(" {}", Name(dtype));
  if (typed.time_loop) key += "; time loop";
  if (typed.scan_input >= 0)
    key += fmt::format("; {} from {}", typed.scan_output, typed.scan_input);
  return key;
}

std::string EmitCudaSource(std::span<const NamedTypedProgram> programs) {
  return std::string(kDeviceText) + EmitKernels(programs);
}

std::string EmitCudaFile(std::span<const NamedTypedProgram> programs,
                         std::string_view register_function) {
  CheckIdentifier(register_function);
  std::string source = "// Emitted from pointwise programs; changes belong there.\n";
  source += "#include \"ops/pointwise/device_code_cuda.h\"\n";
  source += "#include \"ops/pointwise/registry_cuda.h\"\n";
  source += EmitKernels(programs);
  source += "\nnamespace turbolstm::cuda {\n\n";
  source += fmt::format("void {}() {{\n", register_function);
  if (!programs.empty()) {
    source += "  static const CudaKernelRegistration kKernels[] = {\n";
    for (const NamedTypedProgram& named : programs) {
      source += fmt::format("      {{\"{}\",\n       {{{}}}}},\n", KernelKey(named.typed),
                            FunctionTable(named));
    }
    source += "  };\n  RegisterCudaKernels(kKernels);\n";
  }
  return source + "}\n\n}  // namespace turbolstm::cuda\n";
}

void WriteCudaFile(const std::string& path, std::span<const NamedTypedProgram> programs,
                   std::string_view register_function) {
  std::ofstream out(path);
  out << EmitCudaFile(programs, register_function) << std::flush;
  TL_CHECK(out.good(), "[emit pointwise] cannot write {}", path);
}

}  // namespace turbolstm::cuda
