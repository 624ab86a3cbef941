#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "plan/lowered.h"

namespace turbolstm {

struct RunOptions {
  bool training = false;  // random masks are drawn, not replaced by their mean
  uint64_t seed = 0;
  uint32_t training_step = 0;
};

// A graph that runs on some device.
//
// Values are bound and read in the caller's layout, Step [T, B, F], Batch [B, F], Static [F...];
// indices are int32 [T, B] or [B]. Bound memory must stay valid through Run. Not for several
// threads at once.
//
// TypeOf(lowered(), value) tells what the execution keeps an input or output in (BoundaryType).
// fp32 is bound to and read from all of them, and rounded or widened on the way; bits of 16-bit
// numbers go to and come from those that are kept so.
class Execution {
 public:
  virtual ~Execution() = default;

  // lengths: [batch] or empty for all `steps`; resets: [steps, batch], each 0,
  // kResetToInit or kResetToZero; or empty.
  virtual void SetShape(int64_t steps, int64_t batch, std::span<const int32_t> lengths = {},
                        std::span<const uint8_t> resets = {}) = 0;

  // Inputs and parameters by name. Error: no such name, or a number of elements that does not fit
  // the graph and the shape.
  virtual void Bind(std::string_view name, std::span<const float> values) = 0;
  virtual void BindHalf(std::string_view name, std::span<const uint16_t> bits);
  virtual void BindIndices(std::string_view name, std::span<const int32_t> indices) = 0;
  // To be said when bound parameters hold new numbers.
  virtual void ParametersChanged() = 0;

  // Error: something is not bound. The execution stays usable after an error.
  virtual void Run(const RunOptions& options = {}) = 0;

  // Valid until the next SetShape or Run. Padded steps are zero. Error: no such output, or no run
  // has ended well since SetShape.
  virtual std::span<const float> Output(std::string_view name) = 0;
  virtual std::span<const uint16_t> HalfOutput(std::string_view name);

  virtual const LoweredGraph& lowered() const = 0;
  virtual int64_t memory_bytes() const = 0;
};

}  // namespace turbolstm
