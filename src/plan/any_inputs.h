#pragma once

#include <cstdint>
#include <vector>

#include "plan/execution.h"

namespace turbolstm {

// Numbers for everything that an execution of a shape reads, to measure it by: small random ones;
// index 0, which is legal everywhere. The execution must not run when they are gone.
class AnyInputs {
 public:
  // steps, batch: of the shape that is set.
  AnyInputs(Execution* execution, int64_t steps, int64_t batch);

  double Mebibytes() const;

 private:
  std::vector<std::vector<float>> numbers_;
  std::vector<std::vector<int32_t>> indices_;
};

}  // namespace turbolstm
