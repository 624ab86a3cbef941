#include "ops/pointwise/machine_code_cuda.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "backend/cuda/check_cuda.h"
#include "base/error.h"
#include "base/file_cache.h"
#include "ops/pointwise/nvrtc_cuda.h"

namespace turbolstm::cuda {

int CurrentCapability() {
  int device = 0, major = 0, minor = 0;
  TL_CUDA_CHECK(cudaGetDevice(&device));
  TL_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
  TL_CUDA_CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return 10 * major + minor;
}

std::vector<char> MachineCode(const std::string& source, const std::string& architecture) {
  const Nvrtc& nvrtc = Nvrtc::Get();
  const FileCache cache(FileCache::DefaultFolder(), "cubin");
  const std::string key = fmt::format("nvrtc {} {} {}\n{}", nvrtc.Version(), architecture,
                                      fmt::join(NvrtcOptions(), " "), source);
  if (auto found = cache.Find(key)) return *std::move(found);
  std::vector<char> code = nvrtc.Compile(source, architecture);
  cache.Store(key, code);
  return code;
}

}  // namespace turbolstm::cuda
