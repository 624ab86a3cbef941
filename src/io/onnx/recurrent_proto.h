#pragma once

#include <onnx.pb.h>

#include <string_view>

#include "io/onnx/onnx_node.h"
#include "io/onnx/onnx_tensor.h"

namespace turbolstm {

// Parts of the readers, for whoever has ONNX's messages already. `source` is what errors call them.

// Throws Error when the bytes are no model or its opset is too old.
onnx::ModelProto ParseOnnxModel(std::string_view bytes, std::string_view source);
OnnxRecurrentNode OnnxRecurrentNodeOf(const onnx::NodeProto& proto, std::string_view source);
OnnxTensor OnnxTensorOf(const onnx::TensorProto& proto, std::string_view source);

}  // namespace turbolstm
