#include "plan/execution.h"

#include "base/error.h"
#include "plan/named_views.h"

namespace turbolstm {

void Execution::BindHalf(std::string_view name, std::span<const uint16_t> /*bits*/) {
  const DType dtype = TypeOf(lowered(), InputNamed(lowered(), name, false));
  Fail("[bind] '{}' is {} here, got 16-bit numbers", name, Name(dtype));
}

std::span<const uint16_t> Execution::HalfOutput(std::string_view name) {
  const DType dtype = TypeOf(lowered(), OutputNamed(lowered(), name));
  Fail("[output] '{}' is {} here, 16-bit numbers were asked for", name, Name(dtype));
}

}  // namespace turbolstm
