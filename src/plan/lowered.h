#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "graph/analysis.h"
#include "graph/graph.h"
#include "ops/pointwise/kernel.h"
#include "ops/pointwise/program.h"

namespace turbolstm {

// What values are kept and multiplied in; sums and carried states are fp32 always.
enum class Precision : uint8_t {
  kFloat32,   // IEEE
  kTf32,      // kept in fp32; products round their operands to 10 bits
  kBFloat16,  //
  kFloat16,
  kBf16x6,  // kept in fp32; products are sums of six products of bf16 pieces
};

inline constexpr std::array kPrecisions{Precision::kFloat32, Precision::kTf32, Precision::kBFloat16,
                                        Precision::kFloat16, Precision::kBf16x6};

std::string_view Name(Precision precision);
// "fp32", "tf32", "bf16", "fp16" or "bf16x6"; throws on another name.
Precision PrecisionNamed(std::string_view name);
// What operands of products are kept in.
DType OperandType(Precision precision);

// What Step inputs and outputs, which come from the caller and go there, are kept in.
enum class BoundaryType : uint8_t {
  kFloat32,
  kOperand,  // what products multiply; single columns and values that start a loop stay fp32
};

// What a buffer is filled by.
enum class BufferSource : uint8_t { kComputed, kInput, kParameter };

// A value in memory: Static [width], Batch [B, width], or Step [R, width] with the valid rows of
// all steps one after the other. A local one holds a single step of one task's rows; a ring holds
// the rows of the last `ring` steps only, for values that nobody outside their loop reads.
struct Buffer {
  std::string name;
  Domain domain = Domain::kStep;
  int64_t width = 0;
  DType dtype = DType::kFloat32;
  BufferSource source = BufferSource::kComputed;
  bool local = false;
  int32_t ring = 0;
};

// Columns of a buffer.
struct View {
  int32_t buffer = -1;  // -1: zeros
  int64_t column = 0;
  int64_t width = 0;

  bool operator==(const View&) const = default;
};

// Whether two views have a column in common.
inline bool Overlaps(const View& a, const View& b) {
  return a.buffer >= 0 && a.buffer == b.buffer && a.column < b.column + b.width &&
         b.column < a.column + a.width;
}

// A view as it is read: delayed, in the direction of whoever reads it.
struct Operand {
  View view;
  int32_t delay = 0;
  Direction direction = Direction::kForward;
  bool adjoint = false;
  View init;                // history row 0
  int64_t init_stride = 0;  // elements from history row to history row
};

// One kernel call for a run of rows, or one reduction.
struct Stage {
  enum class Kind : uint8_t { kMatMul, kPointwise, kNode };

  Kind kind = Kind::kNode;
  std::string name;
  Op op = Op::kIdentity;
  Attributes attributes;
  Domain domain = Domain::kStep;  // the rows it runs over
  std::vector<int64_t> features;
  std::vector<Operand> inputs;
  std::vector<View> outputs;

  // kMatMul: output = inputs[0] * weight (+ bias) (+ what the output holds already)
  int32_t weight = -1;
  View bias;
  bool accumulate = false;

  // kPointwise
  PointwiseProgram program;
  std::optional<PointwiseKernel> kernel;
};

// A Static matrix packed as the right operand of products.
struct PackedWeight {
  View matrix;
  std::vector<int64_t> features;  // [m, k] or [heads, m, k]
  bool transposed = false;        // of kMatMulTransposed
  bool hoisted = false;           // made of parameters only: the same until those change
};

// Stages that run together: all of a loop, step by step; else one after the other.
struct Group {
  std::string name;
  RegionKind kind = RegionKind::kTimeParallel;
  Domain domain = Domain::kStep;
  Direction direction = Direction::kForward;
  int levels = 0;
  bool recomputed = false;  // for the loop that comes next, see Node
  std::vector<Stage> stages;

  bool is_loop() const { return kind >= RegionKind::kScan; }
};

struct NamedView {
  std::string name;
  View view;
  Domain domain = Domain::kStep;
  std::vector<int64_t> features;
};

// A change of a parameter that is made within a run, as soon as its gradient is complete and nobody
// reads the parameter any more.
struct ParameterUpdate {
  View gradient;   // Static
  View parameter;  // as large
  View guard;      // Static; known before
};

// A graph made ready for any shape: groups in an order that honours every dependency.
struct LoweredGraph {
  Precision precision = Precision::kFloat32;
  BoundaryType boundary = BoundaryType::kFloat32;
  std::vector<Buffer> buffers;
  std::vector<PackedWeight> weights;
  std::vector<Group> groups;
  // Groups from here on need inputs that come late; none where it is not set (late_groups.h).
  std::optional<size_t> first_late;
  std::vector<NamedView> inputs;  // graph inputs and parameters
  std::vector<NamedView> outputs;
  std::vector<ParameterUpdate> updates;  // behind all groups
};

template <typename Visit>
void ForEachStage(const LoweredGraph& graph, Visit visit) {
  for (const Group& group : graph.groups) {
    for (const Stage& stage : group.stages) visit(stage);
  }
}

}  // namespace turbolstm
