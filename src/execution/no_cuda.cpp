#include "base/error.h"
#include "execution/lent_execution.h"
#include "execution/make_execution.h"

namespace turbolstm {
namespace {

[[noreturn]] void FailWithoutCuda() {
  Fail("[cuda] this program was built without CUDA (TL_CUDA=OFF, or no toolkit was found)");
}

}  // namespace

std::unique_ptr<Execution> MakeCudaExecution(Graph, const DeviceOptions&) {
  FailWithoutCuda();
}

std::unique_ptr<LentExecution> MakeCudaLentExecution(Graph, const DeviceOptions&,
                                                     std::span<const std::string>) {
  FailWithoutCuda();
}

}  // namespace turbolstm
