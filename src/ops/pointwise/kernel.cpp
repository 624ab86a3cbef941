#include "ops/pointwise/kernel.h"

#include <mutex>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "ops/cpu_target.h"
#include "ops/pointwise/tile_code.h"

namespace turbolstm {
namespace {

// Kernels compiled ahead of time, by text.
class Registry {
 public:
  void Add(std::span<const PointwiseRegistration> kernels) {
    const std::lock_guard lock(mutex_);
    for (const auto& [text, function] : kernels) {
      functions_.insert_or_assign(std::string(text), function);
    }
  }

  // Null if the text is unknown.
  PointwiseFunction Find(const std::string& text) {
    const std::lock_guard lock(mutex_);
    const auto found = functions_.find(text);
    return found == functions_.end() ? nullptr : found->second;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, PointwiseFunction> functions_;
};

Registry& TheRegistry() {
  static Registry registry;
  return registry;
}

void CheckDTypes(std::span<const PointwiseSlot> slots, std::string_view what) {
  for (size_t i = 0; i < slots.size(); ++i) {
    TL_CHECK(slots[i].dtype == DType::kFloat32 || slots[i].dtype == DType::kBFloat16,
             "[pointwise] {} {} is {}, wants float32 or bfloat16", what, i, Name(slots[i].dtype));
  }
}

bool AllStrides(std::span<const PointwiseSlot> slots, int64_t stride) {
  for (const PointwiseSlot& slot : slots) {
    if (slot.row_stride != stride) return false;
  }
  return true;
}

}  // namespace

PointwiseKernel::PointwiseKernel(const PointwiseProgram& program, PointwiseFunction function)
    : function_(function),
      input_count_(program.inputs.size()),
      output_count_(program.outputs.size()) {
  program.Validate();
  flat_ = true;
  for (InputKind kind : program.inputs) flat_ = flat_ && kind == InputKind::kElement;
  if (function_ == nullptr) tile_code_ = std::make_shared<const PointwiseTileCode>(program);
}

void PointwiseKernel::operator()(const PointwiseArgs& args) const {
  const std::span inputs(args.inputs, input_count_);
  const std::span outputs(args.outputs, output_count_);
  CheckDTypes(inputs, "input");
  CheckDTypes(outputs, "output");
  if (args.rows <= 0 || args.n <= 0) return;
  // Rows without gaps are one long row: fewer tails.
  PointwiseArgs flat = args;
  if (flat_ && AllStrides(inputs, args.n) && AllStrides(outputs, args.n)) {
    flat.rows = 1;
    flat.n = args.rows * args.n;
  }
  if (function_ != nullptr) {
    function_(flat);
  } else {
    RunPointwiseTiles(*tile_code_, flat);
  }
}

void RegisterPointwiseKernels(std::span<const PointwiseRegistration> kernels) {
  TheRegistry().Add(kernels);
}

PointwiseKernel CompilePointwise(const PointwiseProgram& program) {
  ApplyCpuTargetFromEnvironment();
  program.Validate();
  return {program, TheRegistry().Find(program.Text())};
}

PointwiseKernel InterpretPointwise(const PointwiseProgram& program) {
  ApplyCpuTargetFromEnvironment();
  return {program, nullptr};
}

}  // namespace turbolstm
