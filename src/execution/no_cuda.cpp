#include "base/error.h"
#include "execution/make_execution.h"

namespace turbolstm {

std::unique_ptr<Execution> MakeCudaExecution(Graph, const DeviceOptions&) {
  Fail("[cuda] this program was built without CUDA (TL_CUDA=OFF, or no toolkit was found)");
}

}  // namespace turbolstm
