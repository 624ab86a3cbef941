#pragma once

#include <string>
#include <utility>
#include <vector>

namespace turbolstm::cuda {

// NVIDIA's compiler as a library, opened at run time, so that a program starts where it is not
// installed.
class Nvrtc {
 public:
  // Opened at the first call. Error naming what was looked for when it is not there.
  static const Nvrtc& Get();

  // "13.0"
  std::string Version() const;

  // Machine code for a GPU, for example of the architecture "sm_90". Error with the compiler's log.
  std::vector<char> Compile(const std::string& source, const std::string& architecture) const;

 private:
  struct Functions;
  Nvrtc();
  const Functions* functions_ = nullptr;
};

// What Compile passes to the compiler beside the architecture.
const std::vector<std::string>& NvrtcOptions();

}  // namespace turbolstm::cuda
