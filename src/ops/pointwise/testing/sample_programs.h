#pragma once

#include <cstdint>
#include <vector>

#include "ops/pointwise/program.h"

namespace turbolstm {

// A program whose fp32 result can be compared with a double one: intervals and error bounds are
// carried along while it is drawn, so that no value is ill conditioned. Inputs lie in [-2, 2].
struct SampleProgram {
  PointwiseProgram program;
  std::vector<double> tolerances;  // absolute, one per output
};

// Every operator, every kind of input, one to three outputs; the same seed gives the same program.
SampleProgram RandomPointwiseProgram(uint64_t seed);

// In: the four pre-activations i f g o, then the previous cell state. Out: i f g o c tanh(c) h.
PointwiseProgram LstmForwardProgram();

// In: i f g o, c of the previous step, tanh(c), dh, dc. Out: gradients of the four pre-activations
// and of the previous cell state.
PointwiseProgram LstmBackwardProgram();

// What the tests compile ahead of time: both LSTM programs and random ones of seeds 0 to 15.
std::vector<SampleProgram> AheadOfTimeSamples();

// Emitted from AheadOfTimeSamples at build time.
void RegisterSampleKernels();

}  // namespace turbolstm
