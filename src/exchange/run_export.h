#pragma once

#include <filesystem>

namespace turbolstm {

// Writes the model that 'turbolstm train' left in a folder as an ONNX file (see OnnxOfClassifier),
// whose metadata name the labels, line by line. Replaces the file atomically. Throws Error naming
// the file that is missing, truncated or does not fit the others.
void ExportRunToOnnx(const std::filesystem::path& run, const std::filesystem::path& onnx);

}  // namespace turbolstm
