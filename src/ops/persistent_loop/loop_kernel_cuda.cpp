#include "ops/persistent_loop/loop_kernel_cuda.h"

#include <map>
#include <mutex>
#include <vector>

#include "backend/cuda/check_cuda.h"
#include "base/error.h"
#include "ops/pointwise/machine_code_cuda.h"

namespace turbolstm::cuda {
namespace {

// From Hopper on with what that architecture alone has: registers that go from warp to warp.
std::string Architecture() {
  const int capability = CurrentCapability();
  return fmt::format("sm_{}{}", capability, capability >= 90 ? "a" : "");
}

}  // namespace

cudaKernel_t LoadLoopKernel(const std::string& source) {
  static std::mutex mutex;
  static std::map<std::string, cudaKernel_t>& known = *new std::map<std::string, cudaKernel_t>;
  const std::lock_guard lock(mutex);
  const auto found = known.find(source);
  if (found != known.end()) return found->second;
  const std::vector<char> code = MachineCode(source, Architecture());
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  TL_CUDA_CHECK(
      cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  TL_CUDA_CHECK(cudaLibraryGetKernel(&kernel, library, "loop"));
  return known.emplace(source, kernel).first->second;
}

}  // namespace turbolstm::cuda
