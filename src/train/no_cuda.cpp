#include "base/error.h"
#include "train/training_step.h"

namespace turbolstm {

std::unique_ptr<TrainingStep> MakeCudaTrainingStep(const Model&, Parameters*, const Config&, int) {
  Fail("[cuda] this program was built without CUDA (TL_CUDA=OFF, or no toolkit was found)");
}

}  // namespace turbolstm
