#include "backend/backends.h"

namespace turbolstm {

BackendInfo DescribeCuda() {
  return {.kind = DeviceKind::kCuda, .devices = {}, .absence = "built without CUDA"};
}

}  // namespace turbolstm
