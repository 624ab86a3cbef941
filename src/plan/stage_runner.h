#pragma once

#include <cstdint>
#include <vector>

#include "ops/matmul/matmul.h"
#include "plan/lowered.h"
#include "plan/memory.h"
#include "plan/row_layout.h"
#include "plan/typed_rows.h"
#include "plan/weight_slots.h"

namespace turbolstm {

// What a run knows beside the buffers.
struct RunState {
  const LoweredGraph* graph = nullptr;
  const RowLayout* layout = nullptr;
  const Memory* memory = nullptr;
  const std::vector<PackedMatrix>* weights = nullptr;  // by slot
  const WeightSlots* slots = nullptr;
  bool training = false;
  uint64_t seed = 0;
  uint32_t training_step = 0;
};

// How many rows the domain of a kRowCount stage has.
int64_t RowCount(const RunState& state, const Stage& stage);

// Rows of one step, or of a batch value: sequences [row_begin, row_end).
struct StepRows {
  int64_t time = 0;
  int64_t row_begin = 0;
  int64_t row_end = 0;
};

// Consecutive rows of an operand: row r of [begin, end) is at data + (r - begin) * stride bytes.
struct RowRun {
  const std::byte* data = nullptr;
  int64_t stride = 0;  // in bytes; 0: the same for all
  int64_t end = 0;
};

// Runs stages on one stream. Keeps scratch memory, so each stream has its own.
class StageRunner {
 public:
  // The state's graph must be set already; the rest may change from run to run.
  StageRunner(const RunState* state, int stream);

  // Local buffers begin at this row.
  void SetTile(int64_t row_begin) { tile_begin_ = row_begin; }
  // The steps to come lie in the block of this one (see BufferPlaces).
  void SetBlock(int64_t time_begin) {
    block_shift_ = state_.memory->BlockShift(*state_.layout, time_begin);
  }

  // A stage on the rows of one step (Step), or on rows of the batch (Batch; time is ignored).
  void RunRows(const Stage& stage, const StepRows& rows);
  // A Step stage on all rows of the steps [time_begin, time_end), all at once where possible.
  void RunSteps(const Stage& stage, int64_t time_begin, int64_t time_end);
  void RunStatic(const Stage& stage);
  // A stage that sums over rows: those of steps [time_begin, time_end), for a range of columns of
  // its first operand. `first`: the result is written, not added to.
  void RunReduction(const Stage& stage, int64_t time_begin, int64_t time_end, int64_t column_begin,
                    int64_t column_end, bool first);
  // A stage that needs a whole sequence at once.
  void RunWhole(const Stage& stage);

  void PackWeight(int32_t weight, const PackingPart& part, PackedMatrix* packed) const;

 private:
  const Buffer& buffer(int32_t id) const { return state_.graph->buffers[static_cast<size_t>(id)]; }
  int64_t ElementSize(const View& view) const {
    return static_cast<int64_t>(SizeOf(buffer(view.buffer).dtype));
  }

  // --- Where rows lie.

  // The first element of a view in a row of its buffer.
  std::byte* Address(const View& view, int64_t row) const;
  // The row of a Step buffer that holds a sequence at a step.
  int64_t StepRow(const Buffer& buffer, int64_t time, int64_t row) const {
    return buffer.ring > 0 ? time % buffer.ring * state_.layout->batch() + row
                           : state_.layout->offset(time) + row;
  }
  std::byte* OutputRow(const View& view, const StepRows& rows, int64_t row) const;
  // Rows [row, end) of a view at a step.
  RowRun RunAt(const View& view, int64_t time, int64_t row, int64_t end) const;
  // Rows [row, end) of an operand as read at a step: the first run of them that lies evenly.
  RowRun Resolve(const Operand& operand, int64_t time, int64_t row, int64_t end) const;
  RowRun ResolveDelayed(const Operand& operand, int64_t time, int64_t row, int64_t end) const;
  RowRun ResolveWithResets(const Operand& operand, int64_t time, int64_t row, int64_t end) const;
  Link LinkOf(const Operand& operand, int64_t time, int64_t row) const;
  RowRun AtLink(const Operand& operand, const Link& link, int64_t row, int64_t end) const;
  // Appends where each of the rows [row_begin, row_end) of an operand at a step lies.
  void AppendPointers(const Operand& operand, const StepRows& rows,
                      std::vector<const void*>* pointers) const;
  // The rows of an operand for every row of the steps, in order.
  ConstRows GatherRows(const Operand& operand, int64_t time_begin, int64_t time_end,
                       std::vector<const void*>* pointers) const;

  // --- Products and pointwise programs.

  void RunMatMul(const Stage& stage, const StepRows& rows);
  void RunPointwise(const Stage& stage, const StepRows& rows);
  // Runs of rows of several steps, where those lie evenly.
  bool IsFlat(const Stage& stage) const;
  void RunMatMulOnSteps(const Stage& stage, int64_t time_begin, int64_t time_end);
  void RunPointwiseFlat(const Stage& stage, int64_t row_begin, int64_t row_end);
  void MultiplyStatic(const Stage& stage) const;
  // What products multiply; they add up in fp32.
  DType ProductType() const {
    return state_.graph->precision == Precision::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
  }
  const PackedMatrix& WeightOf(const Stage& stage) const {
    return (*state_.weights)[static_cast<size_t>(state_.slots->slot_of(stage.weight))];
  }
  const float* BiasOf(const Stage& stage) const;

  // --- Sums over rows.

  ConstRows SummedRows(const Stage& stage, size_t i, int64_t time_begin, int64_t time_end,
                       std::vector<const void*>* pointers) const;
  int64_t SummedRowCount(const Stage& stage, int64_t time_begin, int64_t time_end) const;
  void SumOuterProducts(const Stage& stage, ConstRows a, ConstRows b, int64_t rows,
                        int64_t column_end, bool first) const;

  // --- Other operators (sequence_operators.cpp, row_operators.cpp, static_operators.cpp).

  void RunNodeRows(const Stage& stage, const StepRows& rows);
  ConstRow OperandRow(const Stage& stage, size_t i, int64_t time, int64_t row) const;
  MutableRow ResultRow(const Stage& stage, int64_t time, int64_t row) const;
  // A row of a Batch result, to be added to.
  float* ZeroedBatchRow(const Stage& stage, int64_t row) const;
  void RunSequence(const Stage& stage, int64_t row) const;
  void RunSumTime(const Stage& stage) const;
  void RunFirstMaxMask(const Stage& stage) const;
  void RunFinal(const Stage& stage, int64_t row) const;
  void RunFinalGrad(const Stage& stage, int64_t row) const;
  void RunFinalInitGrad(const Stage& stage, int64_t row) const;
  void RunInitGrad(const Stage& stage, int64_t row) const;
  void RunScatterAdd(const Stage& stage) const;

  const RunState& state_;
  int stream_;
  int64_t tile_begin_ = 0;
  int64_t block_shift_ = 0;
  std::vector<std::byte> zeros_;  // a row as wide as any that a delayed operand reads
  std::vector<PointwiseSlot> inputs_;
  std::vector<PointwiseSlot> outputs_;
  std::vector<const void*> pointers_;
  std::vector<const void*> more_pointers_;
  std::vector<ConstRow> operands_;
};

}  // namespace turbolstm
