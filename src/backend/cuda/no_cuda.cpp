#include "backend/backends.h"

namespace turbolstm {

BackendInfo DescribeCuda() {
  return {.kind = DeviceKind::kCuda, .devices = {}, .absence = "built without CUDA"};
}

std::vector<LibraryInfo> CudaLibraries() {
  return {};
}

}  // namespace turbolstm
