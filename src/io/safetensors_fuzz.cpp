#include <cstdint>
#include <span>

#include "base/error.h"
#include "io/safetensors.h"

// Any bytes are either a file or an Error, and what was accepted keeps the format's promises.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto file = turbolstm::ParseSafetensors(std::as_bytes(std::span(data, size)), "fuzz");
    size_t bytes = 0;
    for (const auto& tensor : file.tensors) {
      size_t wanted = turbolstm::SizeOf(tensor.dtype);
      for (const int64_t dimension : tensor.shape) wanted *= static_cast<size_t>(dimension);
      if (wanted != tensor.bytes.size()) __builtin_trap();
      bytes += wanted;
    }
    if (bytes > size) __builtin_trap();
  } catch (const turbolstm::Error&) {
  }
  return 0;
}
