#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "backend/cuda/runtime_cuda.h"
#include "execution/device_memory_cuda.h"
#include "execution/device_schedule.h"
#include "execution/make_execution.h"
#include "execution/operators_cuda.h"
#include "execution/persistent_match_cuda.h"
#include "execution/phased_match_cuda.h"
#include "ops/matmul/gemm_cuda.h"
#include "ops/matmul/split_product_cuda.h"
#include "ops/persistent_loop/persistent_loop_cuda.h"
#include "ops/phased_loop/phased_loop_cuda.h"
#include "ops/pointwise/kernel_cuda.h"
#include "plan/lowered.h"

namespace turbolstm::cuda {

// A shape as the device sees it: every step has `batch` rows.
struct DeviceShape {
  int64_t steps = 0;
  int64_t batch = 0;
  bool ragged = false;  // some sequences may be shorter
  bool resets = false;

  auto operator<=>(const DeviceShape&) const = default;
};

// Puts the stages of a graph on a stream: products through cuBLASLt, programs as fused kernels, the
// rest as kernels of their own. Nothing depends on lengths, resets or seeds but what kernels read
// from device memory, so what is enqueued can be recorded once for a shape.
class StageEnqueuer {
 public:
  // Compiles what the graph needs for the current device. Both must outlive the enqueuer.
  StageEnqueuer(const LoweredGraph& graph, const DeviceMemory& memory,
                const DeviceOptions& options);
  // Decides how loops run and what runs at once.
  void SetShape(const DeviceShape& shape);
  // Null: groups run one after the other.
  const DeviceSchedule* schedule() const { return schedule_; }
  // Of a schedule, by group: bytes that DeviceMemory has for what persistent loops hand over.
  std::span<const int64_t> state_bytes() const { return state_bytes_; }
  // Device memory that operators write before they read: made once for a shape. True if it moved;
  // then the stream has been waited for.
  bool MakeRoom(cudaStream_t stream);
  int64_t bytes() const;
  // Memory that recorded work may still use, though what is enqueued now has outgrown it.
  bool has_outgrown() const { return gemm_.has_outgrown_workspaces(); }
  void DropOutgrown() { gemm_.DropOutgrownWorkspaces(); }
  // Loops that ran as persistent kernels when groups were last enqueued.
  int64_t persistent_loops() const { return persistent_loops_; }

  // Enqueues all groups. row_counts: fp32 [2], rows of Step and of Batch values.
  void Enqueue(const OperatorContext& context, const float* row_counts);
  // Likewise, one after the other, the groups before LoweredGraph::first_late, and those from there
  // on, which find what the early ones have left in memory.
  void EnqueueEarly(const OperatorContext& context, const float* row_counts);
  void EnqueueLate(const OperatorContext& context, const float* row_counts);

 private:
  // Rows of a product's operand.
  struct Rows {
    const std::byte* data = nullptr;  // null: zeros
    int64_t stride = 0;               // elements
    DType dtype = DType::kFloat32;
    View whole{};  // where they are rows of a value that is in memory for all steps: of that value
    int64_t first = 0;  // the first of them
  };

  // Bytes that operators write before they read.
  struct Room {
    int64_t gathered[2] = {0, 0};
    int64_t split[2] = {0, 0};
    int64_t split_weights = 0;
    int64_t zeros = 0;
    int64_t scratch = 0;
  };

  const Buffer& buffer(const View& view) const {
    return graph_.buffers[static_cast<size_t>(view.buffer)];
  }
  int64_t ElementSize(const View& view) const {
    return static_cast<int64_t>(SizeOf(buffer(view).dtype));
  }
  int64_t rows() const { return shape_.steps * shape_.batch; }
  cudaStream_t stream() const { return context_.stream; }

  // --- Where rows lie (stage_rows_cuda.cpp).

  void FindZeroPadded();
  std::byte* Address(const View& view, int64_t row) const;
  int64_t StepRow(const View& view, int64_t time) const;
  RowOperand OperandOf(const Operand& operand) const;
  RowOperand OperandAt(const Operand& operand, int64_t time) const;
  RowOutput OutputOf(const View& view) const;
  RowOutput OutputAt(const View& view, int64_t time) const;
  // Whether the rows that an operand reads at any step lie one after the other.
  bool LiesEvenly(const Operand& operand) const;
  bool MustGather(const Stage& stage, size_t i, bool one_step) const;
  // The step that a delayed operand reads; outside 0..steps: its initial value.
  static int64_t SourceStep(const Operand& operand, int64_t time) {
    return operand.direction == Direction::kForward ? time - operand.delay : time + operand.delay;
  }
  View InitRow(const Operand& operand, int64_t time) const;
  Rows RowsAt(const Operand& operand, int64_t time);
  Rows Gathered(const Operand& operand, const RowRange& range, size_t slot);
  // All rows of a Step or Batch value from one on.
  Rows WholeRows(const View& view, int64_t first) const;

  // --- Groups and stages; products in stage_products_cuda.cpp.

  void Begin(const OperatorContext& context, const float* row_counts);
  void EnqueueInTurns(size_t begin, size_t end);
  // steps: of what can be cut; adds: to what a sum over other steps has left.
  void EnqueueGroup(size_t group, const RowRange& steps, bool adds);
  void EnqueueLoop(const Group& group, const std::vector<PointwiseKernel>& kernels);
  // Whether what a stage of a loop computes at the loop's last step is read by nobody.
  bool IsUnreadAtEnd(const Group& group, const Stage& stage) const;
  void EnqueueTimeLoop(const Group& group, const PointwiseKernel& kernel);
  RowRange AllSteps() const { return {0, shape_.steps, shape_.ragged}; }
  // A loop of phased_loops_.
  void EnqueuePhased(size_t group);
  // A loop of loops_, with `exchange` for what its blocks hand to each other.
  void EnqueuePersistent(size_t group, std::byte* exchange);
  void EnqueuePersistent(size_t group, std::byte* exchange, const RowRange& steps,
                         std::byte* carry);
  // Two of them at once, each on its half of the device.
  void EnqueueBeside(size_t first);
  // The product that others read, which the loop's kernel leaves out.
  void EnqueueProductBehind(const LoopMatch& match);
  void EnqueueRows(const Stage& stage, const PointwiseKernel& kernel, const RowRange& range,
                   bool one_step);
  void EnqueueProgram(const Stage& stage, const PointwiseKernel& kernel, const RowRange& range,
                      bool one_step);
  void EnqueueProduct(const Stage& stage, const RowRange& range, bool one_step);
  // like: rows of a product whose bits this one's are to have.
  void Multiply(const Stage& stage, const Rows& x, int64_t count, const View& y, std::byte* to,
                int64_t like = 0);
  void FillRows(const Stage& stage, const View& y, std::byte* to);
  void Run(Gemm gemm);
  void EnqueueStatic(const Stage& stage, const PointwiseKernel& kernel);
  void EnqueueStaticNode(const Stage& stage);
  void EnqueueStaticProduct(const Stage& stage);
  void EnqueueReduction(const Stage& stage, const RowRange& steps, bool adds);
  void EnqueueOuter(const Stage& stage, const RowRange& steps, bool adds);
  // The sum over the rows that a and b share where b is read with a delay.
  void EnqueueShiftedOuter(const Stage& stage, const RowRange& steps, bool adds);
  void SumOuterProducts(const Stage& stage, const Rows& a, const Rows& b, int64_t count,
                        bool accumulate);
  void EnqueueWhole(const Stage& stage);
  OperatorCall CallOf(const Stage& stage) const;
  // Rows that are added to the entries of a table in an order that the inputs alone decide
  // (stage_order_cuda.cpp): found beside what the run begins with.
  void FindOrderedAhead();
  int64_t OrderBytes(const Stage& stage) const;
  RowRange RowsOf(const Stage& stage) const;
  void OrderAhead();
  void EnqueueScatter(const Stage& stage, const OperatorCall& call);
  void ZeroOutput(const Stage& stage) const;

  // --- Tasks on several streams (stage_schedule_cuda.cpp).

  struct Lane {  // a stream of a schedule
    explicit Lane(Urgency urgency) : stream(urgency) {}

    Stream stream;
    Event ended;
  };
  std::optional<DeviceSchedule> Overlapping() const;
  void MakeScheduledLoops();
  void EnqueueTasks();
  void EnqueueTask(size_t task);

  // --- Products out of products of pieces (stage_splits_cuda.cpp).

  struct SplitOperand {
    SplitMatrix split;
    const std::byte* pieces = nullptr;
    int64_t row = 0;  // of the pieces, where the rows begin
  };
  // The pieces of rows that a product has read before are not made again while they are valid.
  struct HeldSplit {
    View view;
    int64_t blocks = 0;
    int64_t first = 0;
    int64_t count = 0;
  };
  // The end of groups from `first` on that take turns, see EndsOfSplitRuns; `first` where they do
  // not for this shape, or not all of them stand before `limit`.
  size_t EndOfSplits(size_t first, size_t limit) const;
  bool IsSplitOverSteps(const Stage& stage) const;
  // Some rows at once for all of these groups, so that the pieces of these are made once.
  void EnqueueSplits(size_t first, size_t end);
  // That have pieces at the same time.
  int64_t RowsAtOnce() const { return SplitRowsAtOnce(std::max(rows(), shape_.batch)); }
  void MultiplyPieces(const Gemm& gemm, const Stage& stage, const Rows& x);
  void SumOuterPieces(const Gemm& gemm, const Rows& a, const Rows& b);
  // Pieces of [count, blocks * width] rows.
  SplitOperand SplitOf(const Rows& x, int64_t count, int64_t width, int64_t blocks, size_t slot);
  void PlaceSplitWeights();
  SplitMatrix SplitOfWeight(int32_t weight) const;
  const std::byte* SplitWeightFor(int32_t weight);
  // Pieces of what a stage writes are no longer valid.
  void ForgetSplits(const Stage& stage);
  void AddSplitRoom(const Stage& stage, int64_t count, Room* room) const;

  // --- Weights.

  void AddRoom(const Stage& stage, bool one_step, Room* room) const;
  void MakeLoops();
  void MakePhasedLoop(size_t group);
  bool CanBePersistent() const;
  // The tile of a loop on so many multiprocessors; parts = 0 where step by step is faster.
  LoopTile TileFor(size_t group, int64_t processors, int64_t chains = 0) const;
  // Of a loop beside others: never by measurement, which would take long for all shares.
  LoopTile TileBeside(size_t group, int64_t processors, int64_t chains) const;
  // In which a forward loop adds up, however it runs; 0: as suits its tile.
  int64_t ChainsOf(size_t group) const;
  // Of the loop where groups run one after the other.
  LoopTile TileInTurns(size_t group) const;
  // Whether two loops are faster at once, on half of the device each.
  bool RunBeside(size_t first, int64_t processors) const;
  struct WeightRows {
    const void* data = nullptr;
    int64_t stride = 0;  // elements
  };
  WeightRows WeightFor(int32_t weight);
  const void* NarrowStatic(const View& view);
  void MakeNarrowStatics(size_t wanted);
  bool CanShift(const Stage& stage) const;

  const LoweredGraph& graph_;
  const DeviceMemory& memory_;
  DType narrow_;  // what products multiply
  SplitRule split_rule_;
  ScheduleKind kind_;
  bool tune_;
  bool in_turns_;
  int64_t time_blocks_;
  GemmRunner gemm_;
  std::vector<std::vector<PointwiseKernel>> kernels_;  // by group and stage
  std::vector<bool> one_kernel_;                       // loops that a single kernel walks through
  std::vector<std::optional<LoopMatch>> matches_;      // by group: loops for persistent kernels
  std::vector<std::optional<PersistentLoop>> loops_;   // those of the current batch size
  // Likewise, loops that no PersistentLoop runs.
  std::vector<std::optional<PhasedMatch>> phased_matches_;
  std::vector<std::optional<PhasedLoop>> phased_loops_;
  std::vector<int64_t> turns_;  // of groups: when they run
  std::vector<bool> beside_;    // loops of loops_ that run at once with the next one
  SideStream side_;
  int64_t exchange_bytes_ = 0;
  DeviceBuffer exchange_;
  std::map<DeviceShape, std::optional<DeviceSchedule>> schedules_;  // of shapes seen
  const DeviceSchedule* schedule_ = nullptr;
  std::vector<int64_t> state_bytes_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::unique_ptr<Event>> task_ended_;
  Event schedule_begins_;
  int32_t product_processors_ = 0;  // for a product of what is enqueued now; 0: all
  size_t room_ = 0;  // of what is enqueued now: streams that run at once have rooms of their own
  int64_t persistent_loops_ = 0;
  std::vector<bool> zero_padded_;  // buffers whose padded rows are zero, whenever they are read
  std::set<const Stage*> sums_with_zero_padding_;
  DeviceShape shape_;
  OperatorContext context_;
  const float* row_counts_ = nullptr;
  bool follows_kernel_ = false;    // what is enqueued next stands behind a kernel on the stream
  std::vector<bool> narrow_made_;  // in this enqueueing: 16-bit copies of Static values
  std::vector<bool> narrow_made_early_;
  static constexpr size_t kRooms = GemmRunner::kWorkspaces;
  DeviceBuffer gathered_[kRooms][2];
  DeviceBuffer split_[2];
  HeldSplit held_[2];
  DeviceBuffer split_weights_;
  std::vector<int64_t> split_places_;  // by weight: offset, or -1; shared where lives do not meet
  std::vector<bool> split_made_;       // in this enqueueing
  std::vector<size_t> split_runs_;     // by group, see EndsOfSplitRuns
  int64_t decides_split_ = 0;  // rows by which parts of a product are split or not; 0: their own
  const Stage* ordered_ahead_ = nullptr;
  bool is_ordering_ = false;
  SideStream ahead_;
  DeviceBuffer order_;
  DeviceBuffer zeros_;
  DeviceBuffer scratch_[kRooms];
};

}  // namespace turbolstm::cuda
