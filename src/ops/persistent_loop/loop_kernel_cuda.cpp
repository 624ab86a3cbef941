#include "ops/persistent_loop/loop_kernel_cuda.h"

#include <map>
#include <mutex>
#include <vector>

#include "backend/cuda/check_cuda.h"
#include "base/error.h"
#include "ops/pointwise/machine_code_cuda.h"

namespace turbolstm::cuda {

cudaKernel_t LoadLoopKernel(const std::string& source) {
  static std::mutex mutex;
  static std::map<std::string, cudaKernel_t>& known = *new std::map<std::string, cudaKernel_t>;
  const std::lock_guard lock(mutex);
  const auto found = known.find(source);
  if (found != known.end()) return found->second;
  const std::vector<char> code = MachineCode(source, fmt::format("sm_{}", CurrentCapability()));
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  TL_CUDA_CHECK(
      cudaLibraryLoadData(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
  TL_CUDA_CHECK(cudaLibraryGetKernel(&kernel, library, "loop"));
  return known.emplace(source, kernel).first->second;
}

}  // namespace turbolstm::cuda
