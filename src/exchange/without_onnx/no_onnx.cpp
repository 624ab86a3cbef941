// What a build without protobuf and ONNX's schema says.
#include "base/error.h"
#include "exchange/onnx_export.h"
#include "exchange/onnx_import.h"

namespace turbolstm {
namespace {

[[noreturn]] void Refuse() {
  Fail(
      "[onnx] this build has no ONNX: it needs protobuf and onnx.proto (Debian: libprotobuf-dev, "
      "protobuf-compiler, libonnx-dev) and TL_ONNX=ON");
}

}  // namespace

std::string OnnxOfLayers(const RecurrentOptions&, const std::string&, bool, const ParameterValues&,
                         const OnnxMetadata&) {
  Refuse();
}

std::string OnnxOfClassifier(const ClassifierOptions&, const ParameterValues&,
                             const OnnxMetadata&) {
  Refuse();
}

std::vector<ImportedLayer> ImportOnnxLayers(const std::filesystem::path&) {
  Refuse();
}

std::vector<ImportedLayer> ImportOnnxLayers(std::string_view, std::string_view) {
  Refuse();
}

}  // namespace turbolstm
