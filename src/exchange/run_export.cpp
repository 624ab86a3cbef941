#include "exchange/run_export.h"

#include "base/error.h"
#include "data/vocabulary.h"
#include "exchange/onnx_export.h"
#include "io/atomic_file.h"
#include "train/checkpoint.h"
#include "train/model_factory.h"
#include "train/parameters.h"
#include "train/run_directory.h"

namespace turbolstm {

void ExportRunToOnnx(const std::filesystem::path& run, const std::filesystem::path& onnx) {
  const RunDirectory directory(run);
  const std::filesystem::path file = directory.ToLoad();
  const Checkpoint checkpoint = LoadCheckpoint(file);
  const CheckpointHeader& header = checkpoint.header;
  const int64_t words = Vocabulary::Load(directory.vocabulary()).size();
  const int64_t classes = std::ssize(header.labels);
  const auto model = MakeClassifier(header.config.model, words, classes);
  Parameters parameters(model->parameters(), 0);
  parameters.Load(checkpoint.file, file.string());
  const std::string bytes =
      OnnxOfClassifier(ClassifierOptionsOf(header.config.model, words, classes),
                       [&](const std::string& name) { return parameters.Named(name); },
                       {{"labels", fmt::format("{}", fmt::join(header.labels, "\n"))}});
  AtomicFile out(onnx);
  out.Write(bytes);
  out.Commit();
}

}  // namespace turbolstm
