// Any bytes either parse or throw Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "io/onnx/onnx_node.h"
#include "io/onnx/onnx_tensor.h"
#include "io/onnx/onnx_weights.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    turbolstm::ParseOnnxRecurrentNode(bytes, "fuzz");
  } catch (const turbolstm::Error&) {
  }
  try {
    turbolstm::ParseOnnxRecurrentWeights(bytes, "fuzz");
  } catch (const turbolstm::Error&) {
  }
  try {
    turbolstm::ParseOnnxTensor(bytes, "fuzz");
  } catch (const turbolstm::Error&) {
  }
  return 0;
}
