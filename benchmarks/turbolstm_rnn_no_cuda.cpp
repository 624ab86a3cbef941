// A build without CUDA.

#include "base/error.h"
#include "turbolstm_model.h"
#include "turbolstm_rnn.h"

namespace turbolstm::bench {

void DescribeGpu(Report*) {
  Fail("[cuda] this program was built without CUDA");
}

void MeasureOnDevice(const Run&, const Options&, Report*) {
  Fail("[cuda] this program was built without CUDA");
}

void MeasureModelOnDevice(const Run&, const Options&, Report*) {
  Fail("[cuda] this program was built without CUDA");
}

}  // namespace turbolstm::bench
