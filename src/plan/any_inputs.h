#pragma once

#include <cstdint>
#include <vector>

#include "plan/executable.h"

namespace turbolstm {

// Numbers for everything that an executable of some shape reads, to measure it by: small random
// ones; index 0, which is legal everywhere. The executable must not outlive them.
class AnyInputs {
 public:
  explicit AnyInputs(Executable* executable);

  double Mebibytes() const;

 private:
  std::vector<std::vector<float>> numbers_;
  std::vector<std::vector<int32_t>> indices_;
};

}  // namespace turbolstm
