#include "ops/pointwise/kernel_cuda.h"

#include <map>
#include <mutex>
#include <unordered_map>

#include "backend/cuda/check_cuda.h"
#include "base/error.h"
#include "ops/pointwise/emitter_cuda.h"
#include "ops/pointwise/launch_plan_cuda.h"
#include "ops/pointwise/machine_code_cuda.h"
#include "ops/pointwise/registry_cuda.h"

namespace turbolstm::cuda {

// Functions are what cudaLaunchKernel takes: of the program's own code, or cudaKernel_t.
struct PointwiseKernel::Code {
  TypedProgram typed;
  const void* functions[kKernelVariants] = {};
  bool ahead_of_time = false;
  bool awaits_predecessors = false;  // see AwaitPredecessors
};

namespace {

using CodePointer = std::shared_ptr<const PointwiseKernel::Code>;

// Whether the program's own code has kernels for the current device.
bool RunsHere(const CudaKernelRegistration& registration) {
  for (const void* function : registration.functions) {
    if (!function) continue;
    cudaFuncAttributes attributes;
    if (cudaFuncGetAttributes(&attributes, function) == cudaSuccess) continue;
    cudaGetLastError();
    return false;
  }
  return true;
}

// All kernels of the process, those compiled ahead of time and those loaded, which stay so.
class Kernels {
 public:
  static Kernels& Get() {
    static Kernels& kernels = *new Kernels;  // outlives every static object that holds a kernel
    return kernels;
  }

  void Register(std::span<const CudaKernelRegistration> kernels) {
    const std::lock_guard lock(mutex_);
    for (const CudaKernelRegistration& kernel : kernels) registered_[kernel.key] = kernel;
  }

  std::vector<PointwiseKernel> Compile(std::span<const TypedProgram> programs) {
    const std::lock_guard lock(mutex_);
    const int capability = CurrentCapability();
    Known& known = known_[capability];
    std::vector<std::string> keys;
    std::vector<NamedTypedProgram> missing;
    for (const TypedProgram& typed : programs) {
      keys.push_back(KernelKey(typed));
      const auto [place, added] = known.try_emplace(keys.back());
      if (place->second) continue;
      place->second = FindRegistered(keys.back(), typed, capability);
      if (!place->second && added) missing.push_back({fmt::format("k{}", missing.size()), typed});
    }
    if (!missing.empty()) LoadMissing(missing, capability, &known);
    std::vector<PointwiseKernel> kernels;
    for (const std::string& key : keys) kernels.emplace_back(known.at(key));
    return kernels;
  }

 private:
  using Known = std::unordered_map<std::string, CodePointer>;  // by key

  CodePointer FindRegistered(const std::string& key, const TypedProgram& typed,
                             int capability) const {
    const auto found = registered_.find(key);
    if (found == registered_.end() || !RunsHere(found->second)) return nullptr;
    PointwiseKernel::Code code{.typed = typed,
                               .functions = {},
                               .ahead_of_time = true,
                               .awaits_predecessors = capability >= 90};
    std::copy(std::begin(found->second.functions), std::end(found->second.functions),
              std::begin(code.functions));
    return std::make_shared<const PointwiseKernel::Code>(std::move(code));
  }

  static void LoadMissing(const std::vector<NamedTypedProgram>& missing, int capability,
                          Known* known) {
    try {
      const auto code = MachineCode(EmitCudaSource(missing), fmt::format("sm_{}", capability));
      cudaLibrary_t library = nullptr;
      TL_CUDA_CHECK(
          cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
      for (const NamedTypedProgram& named : missing) {
        known->at(KernelKey(named.typed)) = FromLibrary(library, named, capability);
      }
    } catch (...) {
      std::erase_if(*known, [](const auto& entry) { return !entry.second; });
      throw;
    }
  }

  static CodePointer FromLibrary(cudaLibrary_t library, const NamedTypedProgram& named,
                                 int capability) {
    PointwiseKernel::Code code{.typed = named.typed,
                               .functions = {},
                               .ahead_of_time = false,
                               .awaits_predecessors = capability >= 90};
    for (int i = 0; i < kKernelVariants; ++i) {
      const std::string name = KernelName(named, static_cast<KernelVariant>(i));
      if (name.empty()) continue;
      cudaKernel_t kernel = nullptr;
      TL_CUDA_CHECK(cudaLibraryGetKernel(&kernel, library, name.c_str()));
      code.functions[i] = kernel;
    }
    return std::make_shared<const PointwiseKernel::Code>(std::move(code));
  }

  std::mutex mutex_;
  std::unordered_map<std::string_view, CudaKernelRegistration> registered_;
  std::map<int, Known> known_;  // by compute capability
};

dim3 Dim(const LaunchShape& shape) {
  return {shape.x, shape.y, shape.z};
}

}  // namespace

void RegisterCudaKernels(std::span<const CudaKernelRegistration> kernels) {
  Kernels::Get().Register(kernels);
}

void PointwiseKernel::Launch(const PointwiseRun& run, cudaStream_t stream) const {
  TL_CHECK(code_, "[pointwise] the kernel was not compiled");
  if (run.n <= 0 || run.range.steps <= 0 || run.sequences.batch <= 0) return;
  LaunchPlan plan = PlanLaunch(code_->typed, run);
  void* arguments[] = {plan.arguments.data()};
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = Dim(plan.grid);
  config.blockDim = Dim(plan.block);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = run.follows_kernel && code_->awaits_predecessors ? 1 : 0;
  TL_CUDA_CHECK(
      cudaLaunchKernelExC(&config, code_->functions[static_cast<int>(plan.variant)], arguments));
}

bool PointwiseKernel::AheadOfTime() const {
  return code_ && code_->ahead_of_time;
}

std::vector<PointwiseKernel> CompilePointwise(std::span<const TypedProgram> programs) {
  for (const TypedProgram& typed : programs) Validate(typed);
  return Kernels::Get().Compile(programs);
}

}  // namespace turbolstm::cuda
