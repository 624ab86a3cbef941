#include "ops/pointwise/scan_emitter_cuda.h"

#include <cmath>
#include <iterator>
#include <vector>

#include "base/error.h"
#include "ops/pointwise/affine.h"

namespace turbolstm::cuda {
namespace {

class ScanWriter {
 public:
  explicit ScanWriter(const NamedTypedProgram& named)
      : named_(named),
        name_(named.name),
        typed_(named.typed),
        program_(named.typed.program),
        live_(program_.LiveValues()),
        state_(static_cast<size_t>(typed_.scan_input)),
        result_(static_cast<size_t>(typed_.scan_output)) {
    const auto affine = FindAffine(program_, state_, result_);
    TL_CHECK(affine, "[emit pointwise] output {} of {} is not linear in input {}", result_, name_,
             state_);
    affine_ = *affine;
  }

  std::string Write() {
    WriteAffine();
    WriteKernel();
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
  bool SharedByRows(size_t i) const {
    return program_.inputs[i] == InputKind::kRowVector || program_.inputs[i] == InputKind::kScalar;
  }
  std::string_view Column(size_t i) const {
    const InputKind kind = program_.inputs[i];
    return kind == InputKind::kColumn || kind == InputKind::kScalar ? "0" : "place.j";
  }

  // Of values that follow from the state a pair (a, c): a * state + c; of others the value.
  void WriteAffine() {
    std::string parameters;
    for (size_t i = 0; i < Inputs(); ++i) {
      if (affine_.needed[i] && i != state_) parameters += fmt::format("float v{}, ", i);
    }
    Line("__device__ __forceinline__ Affine {}_affine({}int) {{", name_, parameters);
    Line("  const Affine w{}{{1.0f, 0.0f}};", state_);
    for (size_t i = 0; i < program_.constants.size(); ++i) {
      const size_t value = static_cast<size_t>(program_.FirstConstant()) + i;
      if (!affine_.needed[value]) continue;
      Line("  const float v{} = {};", value,
           FloatLiteral(static_cast<float>(program_.constants[i])));
    }
    for (size_t i = 0; i < program_.code.size(); ++i) {
      const size_t value = static_cast<size_t>(program_.FirstResult()) + i;
      if (!affine_.needed[value]) continue;
      const auto& [op, a, b, c] = program_.code[i];
      std::string operands = Operand(a);
      if (OperandCount(op) > 1) operands += ", " + Operand(b);
      if (OperandCount(op) > 2) operands += ", " + Operand(c);
      const bool follows = affine_.follows[value];
      Line("  const {} {}{} = {}({});", follows ? "Affine" : "float", follows ? "w" : "v", value,
           PascalCaseName(op), operands);
    }
    Line("  return {};", Operand(program_.outputs[result_]));
    Line("}}");
  }

  std::string Operand(int32_t value) const {
    return fmt::format("{}{}", affine_.follows[static_cast<size_t>(value)] ? "w" : "v", value);
  }

  void WriteKernel() {
    Line("extern \"C\" __global__ void __launch_bounds__(kScanThreads)");
    Line("    {}(const __grid_constant__ TimeLoopArgs<{}, {}> args) {{",
         KernelName(named_, KernelVariant::kPlain), Inputs(), Outputs());
    Line("  AwaitPredecessors();");
    Line("  const Sequences& sequences = args.head.sequences;");
    Line("  const RowOperand& carried = args.in[{}];", state_);
    Line("  const ScanPlace place = ScanPlaceOf(args.head, carried.delay);");
    for (size_t i = 0; i < Inputs(); ++i) {
      if (!live_[i] || !SharedByRows(i)) continue;
      Line("  const float x{0} = LoadOrZero<{1}>(args.in[{0}].data, {2});", i,
           MemoryTypeName(typed_.inputs[i]), Column(i));
    }
    for (size_t i = 0; i < Inputs(); ++i) {
      if (!IsLoaded(live_, i)) continue;
      Line("  const ScanTrack in{0} = ScanTrackOf<{1}>(args.in[{0}], sequences, place, {2});", i,
           MemoryTypeName(typed_.inputs[i]), Column(i));
    }
    for (size_t i = 0; i < Outputs(); ++i) {
      Line("  const ScanTrack out{0} = ScanTrackOf<{1}>(args.out[{0}], sequences, place, place.j);",
           i, MemoryTypeName(typed_.outputs[i]));
    }
    Line("  Affine part{{1.0f, 0.0f}};");
    WriteSteps(affine_.needed, [&] {
      Line("        Affine step{{0.0f, 0.0f}};");
      Line("        if (place.IsValid(m + k)) {{");
      Line("          step = {}_affine({}0);", name_, Arguments(affine_.needed, false));
      Line("          float init = 0.0f;");
      Line("          if (IsCut(carried, sequences, place, t, &init)) step = Fixed(step, init);");
      Line("        }}");
      Line("        part = Then(part, step);");
    });
    Line("  float state = StateBefore(part);");
    WriteSteps(live_, [&] { WriteRun(); });
    Line("}}");
  }

  // A loop over the steps of the thread; the loads of several are on the way together.
  template <typename Body>
  void WriteSteps(const std::vector<bool>& wanted, const Body& body) {
    Line("#pragma unroll 1");
    Line("  for (long long m = place.begin; m < place.end; m += kScanAhead) {{");
    for (size_t i = 0; i < Inputs(); ++i) {
      if (!IsLoaded(wanted, i)) continue;
      Line("    float x{}[kScanAhead];", i);
      Line("#pragma unroll");
      Line("    for (int k = 0; k < kScanAhead; ++k) {{");
      Line("      x{0}[k] = Load<{1}, 1>(in{0}.At(place.Within(m + k)), 0).e[0];", i,
           MemoryTypeName(typed_.inputs[i]));
      Line("    }}");
    }
    Line("#pragma unroll");
    Line("    for (int k = 0; k < kScanAhead; ++k) {{");
    Line("      if (m + k < place.end) {{");
    Line("        const long long t = place.Step(m + k);");
    body();
    Line("      }}");
    Line("    }}");
    Line("  }}");
  }

  void WriteRun() {
    for (size_t i = 0; i < Outputs(); ++i) Line("        float y{} = 0.0f;", i);
    Line("        if (place.IsValid(m + k)) {{");
    Line("          float init = 0.0f;");
    Line("          const bool cut = IsCut(carried, sequences, place, t, &init);");
    Line("          const float before = cut ? init : state;");
    std::string outputs;
    for (size_t i = 0; i < Outputs(); ++i) outputs += fmt::format("{}y{}", i == 0 ? "" : ", ", i);
    Line("          {}_compute({}{});", name_, Arguments(live_, true), outputs);
    Line("        }}");
    for (size_t i = 0; i < Outputs(); ++i) {
      const std::string_view type = MemoryTypeName(typed_.outputs[i]);
      Line("        if (args.out[{}].period >= place.steps) {{", i);
      Line("          Store<{0}>(out{1}.At(m + k), 0, y{1});", type, i);
      Line("        }} else if (place.IsKept(m + k, args.out[{}].period)) {{", i);
      Line("          Store<{0}>(RowAddress(args.out[{1}], sequences, t, place.b), place.j, y{1});",
           type, i);
      Line("        }}");
    }
    Line("        state = y{};", result_);
  }

  bool IsLoaded(const std::vector<bool>& wanted, size_t i) const {
    return wanted[i] && live_[i] && i != state_ && !SharedByRows(i);
  }

  // Of all inputs wanted, each with a comma behind it.
  std::string Arguments(const std::vector<bool>& wanted, bool with_state) const {
    std::string arguments;
    for (size_t i = 0; i < Inputs(); ++i) {
      if (!wanted[i] || (i == state_ && !with_state)) continue;
      arguments += i == state_       ? "before, "
                   : SharedByRows(i) ? fmt::format("x{}, ", i)
                                     : fmt::format("x{}[k], ", i);
    }
    return arguments;
  }

  const NamedTypedProgram& named_;
  const std::string& name_;
  const TypedProgram& typed_;
  const PointwiseProgram& program_;
  const std::vector<bool> live_;
  const size_t state_, result_;
  AffineOutput affine_;
  std::string text_;
};

}  // namespace

std::string EmitScanKernel(const NamedTypedProgram& named) {
  return ScanWriter(named).Write();
}

}  // namespace turbolstm::cuda
