#include "train/trained_run.h"

#include "train/model_factory.h"
#include "train/run_directory.h"
#include "train/trainer.h"

namespace turbolstm {

TrainedRun::TrainedRun(const std::filesystem::path& directory, const std::string& device)
    : device_(ChooseDevice(device)),
      file_(RunDirectory(directory).ToLoad()),
      vocabulary_(Vocabulary::Load(RunDirectory(directory).vocabulary())) {
  Checkpoint checkpoint = LoadCheckpoint(file_);
  header_ = std::move(checkpoint.header);
  model_ = MakeClassifier(config().model, vocabulary_.size(), std::ssize(labels()));
  parameters_ = std::make_unique<Parameters>(model_->parameters(), 0);
  parameters_->Load(checkpoint.file, file_.string());
  precision_ = AnswerPrecision(device_, PrecisionNamed(config().model.precision));
  evaluator_ = std::make_unique<Evaluator>(*model_, *parameters_, precision_, device_,
                                           MakePool(config().train));
}

}  // namespace turbolstm
