#pragma once

#include <cstdint>
#include <vector>

#include "ops/pointwise/kernel.h"

namespace turbolstm {

// A program with its values assigned to tile registers: arrays of kTile floats that stay in the
// first-level cache. Inputs have the first registers, constants the next; results share the rest,
// each free again after its last use.
class PointwiseTileCode {
 public:
  static constexpr int64_t kTile = 512;

  struct Step {
    PointwiseOp op;
    int32_t to;
    int32_t a, b, c;  // registers; those beyond OperandCount are 0
  };

  explicit PointwiseTileCode(const PointwiseProgram& program);

  std::vector<InputKind> inputs;
  std::vector<float> constants;
  std::vector<Step> steps;
  std::vector<int32_t> outputs;  // registers
  // Inputs that are outputs as they are: a store into aliased memory must not change them.
  std::vector<bool> input_is_output;
  int32_t register_count = 0;
};

// Runs the code on the best CPU target; args have at least one element.
void RunPointwiseTiles(const PointwiseTileCode& code, const PointwiseArgs& args);

}  // namespace turbolstm
