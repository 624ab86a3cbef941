#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "execution/make_execution.h"
#include "plan/lowered.h"

namespace turbolstm {

// Every step has a row for each of `batch` sequences.
struct LentShape {
  int64_t steps = 0;
  int64_t batch = 0;
  bool ragged = false;  // some sequences may be shorter
  bool resets = false;

  auto operator<=>(const LentShape&) const = default;
};

// Device memory for one use of a shape.
struct LentBytes {
  int64_t shared = 0;  // from the early pass to the late one
  int64_t early = 0;   // while the early pass runs
  int64_t late = 0;
};

// One half of one use. All memory is the device's, in rows [T, B, F] or [B, F]; values of padded
// steps must be zero.
struct LentPass {
  LentShape shape;
  void* stream = nullptr;  // the vendor's; may be recording
  std::byte* shared = nullptr;
  std::byte* own = nullptr;             // LentBytes::early or late
  std::span<std::byte* const> inputs;   // as lowered().inputs; late ones in the late pass only
  std::span<std::byte* const> outputs;  // as lowered().outputs; in the other pass null, but those
                                        // that are reread are wanted in both
  const int32_t* lengths = nullptr;     // [B], where ragged
  const uint8_t* resets = nullptr;      // [T, B], where there are any: ResetTo
  const void* numbers = nullptr;        // LentNumbers; null: no seed, not training
};

// What masks are drawn from; lies in device memory.
struct LentNumbers {
  uint64_t seed = 0;
  uint32_t training_step = 0;
  int32_t training = 0;  // 0: masks are their mean
};

// A graph on a device in memory that the caller lends, in two halves: the early one needs none of
// the late inputs. It keeps nothing of a use but what it works in, so any number of uses may be
// under way. Nothing waits for the device. Not for several threads at once.
class LentExecution {
 public:
  virtual ~LentExecution() = default;

  virtual const LoweredGraph& lowered() const = 0;
  // By output: whether the late pass makes it.
  virtual const std::vector<bool>& late_outputs() const = 0;
  // By output: whether the late pass reads what the early one has written there.
  virtual const std::vector<bool>& reread_outputs() const = 0;
  virtual LentBytes Bytes(const LentShape& shape) = 0;
  // Enqueue a half on the stream. Error: an earlier pass has failed on the device.
  virtual void Early(const LentPass& pass) = 0;
  virtual void Late(const LentPass& pass) = 0;
};

// Error: this build has no CUDA, or no such device answers.
std::unique_ptr<LentExecution> MakeCudaLentExecution(Graph graph, const DeviceOptions& options,
                                                     std::span<const std::string> late_inputs);

}  // namespace turbolstm
