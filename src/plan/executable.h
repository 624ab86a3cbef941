#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "plan/auto_schedule.h"
#include "plan/execution.h"
#include "plan/lowered.h"
#include "plan/memory.h"
#include "plan/partition.h"
#include "plan/plan.h"
#include "plan/row_layout.h"
#include "plan/schedule.h"
#include "plan/schedule_kind.h"
#include "plan/stage_runner.h"
#include "runtime/stream_pool.h"

namespace turbolstm {

// Measuring which plan is the fastest. Which one that is may change from time to time, and
// gradients of weights with it by rounding; a plan that is kept or exported does not change.
struct TuneOptions {
  double seconds = 0;           // to spend on a new shape; 0: nothing is measured
  std::filesystem::path cache;  // folder that keeps what was found; empty: it is not kept
  std::string machine;          // more that tells machines apart than MachineName
};

// Parameters that change within a run, see Executable::OnUpdate.
struct UpdateOptions {
  struct Parameter {
    std::string gradient;  // an output
    std::string name;
  };
  std::vector<Parameter> parameters;
  std::string guard;  // an output that is known before any of them changes
};

struct ExecutableOptions {
  Precision precision = Precision::kFloat32;
  int streams = 0;  // 0: one for each core
  ScheduleKind schedule = ScheduleKind::kAuto;
  int64_t time_block = 0;  // see PartitionOptions; 0: as the schedule has it
  int64_t row_tile = 0;
  int64_t sum_block = 0;
  TuneOptions tune = {};  // with kAuto
  // A plan as PrintPlan writes it, for its shape: it comes before all of the above.
  std::string given_plan = {};
  bool verify = false;  // prove every new plan before it runs
  // Saves memory for time: keeps only the states of loops for the backward pass, which computes
  // everything else of the forward pass again (see RecomputeActivations), and lets values share
  // memory where some wait for that (see BufferPlaces).
  bool recompute = false;
  UpdateOptions updates = {};
  // Inputs that the caller has only after a first half of the run, see RunEarly.
  std::vector<std::string> late_inputs = {};
};

// Runs a graph on the CPU: lowered once, planned once for each shape, with its memory. Bound memory
// is read without a copy when all sequences have full length.
class Executable final : public Execution {
 public:
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  // The graph may hold transforms and unsimplified parts; the standard passes run here.
  // pool: threads to share with others; by default the executable has its own.
  Executable(Graph graph, const ExecutableOptions& options,
             std::shared_ptr<StreamPool> pool = nullptr);
  // What another executable has made of its graph: precision is that of the lowered graph.
  Executable(LoweredGraph lowered, const ExecutableOptions& options,
             std::shared_ptr<StreamPool> pool = nullptr);

  void SetShape(int64_t steps, int64_t batch, std::span<const int32_t> lengths = {},
                std::span<const uint8_t> resets = {}) override;
  void Bind(std::string_view name, std::span<const float> values) override;
  void BindIndices(std::string_view name, std::span<const int32_t> indices) override;
  void ParametersChanged() override { weights_packed_ = false; }
  void Run(const RunOptions& options = {}) override;
  std::span<const float> Output(std::string_view name) override;

  // The two halves of Run: what needs no late input, and the rest. In between, outputs that the
  // first half has made can be read and the late inputs bound; what was bound before stays.
  void RunEarly(const RunOptions& options = {});
  void RunLate();

  // What changes elements [first, first + size) of parameter i of UpdateOptions. Called in a run,
  // from several threads at once, each element once, when its gradient is complete and nobody reads
  // the parameter any more. The parameter must be bound to memory that may be written.
  using Update = std::function<void(size_t i, int64_t first, int64_t size)>;
  void OnUpdate(Update update) { update_ = std::move(update); }
  // Of parameter i, during Update: its gradient, and the guard.
  std::span<const float> GradientOf(size_t i) const;
  std::span<const float> Guard() const;

  // Step values as a PackedSequence has them: [rows, F], the rows of all sequences that reach a
  // step one after the other, longest first (of equally long ones the first first).
  void BindRows(std::string_view name, std::span<const float> values);
  std::span<const float> OutputRows(std::string_view name);

  // A plan of the current shape with these cuts, and runs it from now on, until that shape is
  // forgotten. Error: it is of another shape, or has more streams than there are.
  Plan PlanWith(const PartitionOptions& cuts) const;
  void Use(Plan plan);

  // For looking at.
  const LoweredGraph& lowered() const override { return lowered_; }
  const Plan& plan() const { return *plan_; }
  const RowLayout& layout() const { return layout_; }
  // Of the last run that recorded them.
  const std::vector<TaskTime>& task_times() const { return times_; }
  void RecordTimes(bool record) { record_times_ = record; }
  const Memory& memory() const { return memory_; }
  // Beside what the caller bound; packed_bytes: the part of it that packed weights take.
  int64_t memory_bytes() const override { return memory_.bytes() + packed_bytes(); }
  int64_t packed_bytes() const { return plan_->partition.weights.bytes(); }

 private:
  struct Bound {
    const std::byte* data = nullptr;
    int64_t elements = 0;
    bool rows = false;  // see BindRows
  };
  enum class Progress : uint8_t { kNothing, kEarly, kAll };

  struct KeptPlan {
    std::unique_ptr<Plan> plan;
    int64_t last_used = 0;
  };

  int64_t ElementsOf(const NamedView& value) const;
  void BindBytes(std::string_view name, const std::byte* data, int64_t elements, bool index);
  void Place(const NamedView& input);
  void PlaceInputs(bool late);
  void Begin(const RunOptions& options);
  void End(Progress progress);
  bool IsReady(const NamedView& output) const;
  const NamedView& ReadyOutput(std::string_view name) const;
  void PackInput(const NamedView& value, const std::byte* from);
  std::span<const float> Unpacked(const NamedView& value);
  bool IsBound(const NamedView& value) const;
  void KeepBoundOutputs();
  std::span<const float> StaticValue(const View& view) const;
  void RunTask(int32_t task, int stream);
  void RunGroup(const Group& group, const Task& task, const Work& work, StageRunner* runner);
  const Plan& PlanFor(int64_t steps, int64_t batch);
  Plan NewPlan(int64_t steps, int64_t batch);
  Plan Finished(Plan plan) const;
  void Enter(const Plan& plan);
  PartitionOptions Cuts(const RowLayout& layout, const PartitionOptions& asked);

  LoweredGraph lowered_;
  ExecutableOptions options_;
  std::shared_ptr<StreamPool> pool_;
  Memory memory_;
  RowLayout layout_;
  std::map<std::pair<int64_t, int64_t>, KeptPlan> plans_;           // by steps and batch
  std::map<std::pair<int64_t, int64_t>, Proportions> proportions_;  // by bucket and batch
  int64_t plans_used_ = 0;
  const Plan* plan_ = nullptr;
  std::vector<PackedMatrix> weights_;  // by slot of the plan
  bool weights_packed_ = false;        // those made of parameters only, from the bound numbers
  bool has_memory_ = false;            // of the current shape
  Progress progress_ = Progress::kNothing;
  std::map<std::string, Bound, std::less<>> bound_;
  std::map<std::string, std::vector<float>, std::less<>> unpacked_;
  RunState state_;
  Update update_;
  std::vector<StageRunner> runners_;
  std::vector<TaskTime> times_;
  bool record_times_ = false;
};

}  // namespace turbolstm
