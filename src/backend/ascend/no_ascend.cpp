#include "backend/backends.h"

namespace turbolstm {

BackendInfo DescribeAscend() {
  return {.kind = DeviceKind::kAscend, .devices = {}, .absence = "built without Ascend"};
}

}  // namespace turbolstm
