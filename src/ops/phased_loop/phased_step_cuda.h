#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "base/dtype.h"
#include "ops/persistent_loop/loop_step_cuda.h"
#include "ops/pointwise/kernel_cuda.h"

// A step of a loop whose cell is more than one product and one program: products, sums over the
// units of a row and programs in any order. Each thread has a unit of a sequence and computes, one
// after the other, all that belongs to it; what it computes are numbered values. A vector of k * U
// elements is k values, U units apart; a value of a row is the same for all units.
namespace turbolstm::cuda {

// Where a value lies in memory.
struct PhasedPlace {
  size_t operand = 0;    // of the run's inputs, or outputs
  int64_t column = 0;    // of unit 0
  bool per_unit = true;  // else one element a row
  DType dtype = DType::kFloat32;
  LoopRows rows;
};

// Read at the beginning of a step.
struct PhasedLoad {
  int value = 0;
  PhasedPlace from;
};

// What the loop itself computed one step before; where there is no such step, an initial value.
struct PhasedCarried {
  int value = 0;
  int next = 0;      // the value of this step that the next one finds
  PhasedPlace from;  // how it would be read from memory
};

struct PhasedProgram {
  size_t program = 0;  // of PhasedStep::programs
  std::vector<int> inputs;
  std::vector<int> outputs;
};

// results = W x + what each is added to.
struct PhasedProduct {
  std::vector<int> x;                   // parts of x, U elements of it each
  std::vector<int> results;             // likewise
  std::vector<std::vector<int>> added;  // by result
};

// One sum over the units of a row.
struct PhasedSum {
  std::vector<int> of;  // all are added up
  int result = 0;
};

struct PhasedStore {
  int value = 0;
  PhasedPlace to;
};

struct PhasedStep {
  int64_t units = 0;  // U
  int values = 0;
  std::vector<TypedProgram> programs;
  std::vector<PhasedLoad> loads;
  std::vector<PhasedCarried> carried;
  std::vector<std::variant<PhasedProgram, PhasedProduct, PhasedSum>> phases;
  std::vector<PhasedStore> stores;  // at the end of a step; zeros in padded rows
  size_t inputs = 0;                // of a run
  size_t outputs = 0;
  DType operand = DType::kBFloat16;  // see LoopStep
  bool in_pieces = false;
};

// How such a loop is dealt out to blocks.
struct PhasedTile {
  int64_t units = 8;  // of a block: 8 or 16
  int64_t parts = 0;  // blocks of a group: they share its sequences
  int64_t groups = 0;
  int64_t tiles = 0;   // of kTileRows sequences, in a group: all are in the same phase
  int64_t rounds = 0;  // runs over all steps, each with sequences of its own
  int64_t shared_bytes = 0;
  int64_t exchange_bytes = 0;
};

}  // namespace turbolstm::cuda
