#include "plan/executable.h"

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "graph/passes/lower_transforms.h"
#include "graph/passes/passes.h"
#include "plan/auto_schedule.h"
#include "plan/dependencies.h"
#include "plan/known_schedules.h"
#include "plan/lowering.h"
#include "plan/named_views.h"
#include "plan/tune.h"
#include "plan/verify.h"

namespace turbolstm {
namespace {

// Enough for the lengths that the batches of a training run have, little beside their memory.
constexpr size_t kMostPlans = 256;

Graph Prepared(Graph graph, bool recompute) {
  LowerTransforms(&graph);
  RunPasses(&graph, StandardPasses());
  if (recompute) RecomputeActivations(&graph);
  return graph;
}

ExecutableOptions Resolved(ExecutableOptions options) {
  if (options.streams == 0) {
    options.streams = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  TL_CHECK(options.precision == Precision::kFloat32 || options.precision == Precision::kBFloat16,
           "[plan] got the precision {}, wants fp32 or bf16", Name(options.precision));
  TL_CHECK(options.streams >= 1, "[plan] got {} streams, wants at least 1", options.streams);
  TL_CHECK(!options.recompute || options.late_inputs.empty(),
           "[plan] a run that computes activations again has no halves");
  return options;
}

void AddUpdates(const UpdateOptions& options, LoweredGraph* graph) {
  graph->updates.clear();
  for (const UpdateOptions::Parameter& parameter : options.parameters) {
    const NamedView& gradient = OutputNamed(*graph, parameter.gradient);
    const NamedView& value = InputNamed(*graph, parameter.name, false);
    TL_CHECK(gradient.domain == Domain::kStatic && gradient.view.width == value.view.width,
             "[plan] '{}' is no gradient of '{}'", parameter.gradient, parameter.name);
    graph->updates.push_back({gradient.view, value.view, OutputNamed(*graph, options.guard).view});
  }
}

}  // namespace

Executable::Executable(Graph graph, const ExecutableOptions& options,
                       std::shared_ptr<StreamPool> pool)
    : Executable(Lower(Prepared(std::move(graph), options.recompute), options.precision,
                       options.recompute ? Reuse::kNone : Reuse::kDeadBuffers),
                 options, std::move(pool)) {}

Executable::Executable(LoweredGraph lowered, const ExecutableOptions& options,
                       std::shared_ptr<StreamPool> pool)
    : lowered_(std::move(lowered)),
      options_(Resolved(options)),
      pool_(pool ? std::move(pool) : std::make_shared<StreamPool>(options_.streams)),
      memory_(lowered_, options_.streams) {
  AddUpdates(options_.updates, &lowered_);
  TL_CHECK(pool_->streams() >= options_.streams, "[plan] the pool has {} streams, wants {}",
           pool_->streams(), options_.streams);
  state_ = {.graph = &lowered_, .layout = &layout_, .memory = &memory_, .weights = &weights_};
  for (int stream = 0; stream < options_.streams; ++stream) runners_.emplace_back(&state_, stream);
  SetShape(0, 0);
}

void Executable::SetShape(int64_t steps, int64_t batch, std::span<const int32_t> lengths,
                          std::span<const uint8_t> resets) {
  RowLayout layout(steps, batch, lengths, resets);
  const Plan& plan = PlanFor(steps, batch);
  // Errors until here change nothing.
  layout_ = std::move(layout);
  Enter(plan);
}

// Makes room for a plan of the layout's shape.
void Executable::Enter(const Plan& plan) {
  has_memory_ = false;
  progress_ = Progress::kNothing;
  if (plan_ == nullptr || plan_->partition.weights != plan.partition.weights) {
    const WeightSlots& slots = plan.partition.weights;
    weights_.resize(static_cast<size_t>(slots.count()));
    for (int32_t i = 0; i < slots.count(); ++i) {
      weights_[static_cast<size_t>(i)].Reserve(slots.bytes(i));
    }
    weights_packed_ = false;
  }
  plan_ = &plan;
  memory_.Resize(layout_, plan.partition);
  has_memory_ = true;
}

// The plans of the shapes used last are kept.
const Plan& Executable::PlanFor(int64_t steps, int64_t batch) {
  KeptPlan& kept = plans_[{steps, batch}];
  if (!kept.plan) kept.plan = std::make_unique<Plan>(NewPlan(steps, batch));
  kept.last_used = ++plans_used_;
  const Plan& plan = *kept.plan;
  if (plans_.size() > kMostPlans) {
    plans_.erase(std::min_element(plans_.begin(), plans_.end(), [](const auto& a, const auto& b) {
      return a.second.last_used < b.second.last_used;
    }));
  }
  return plan;
}

// What saves memory, and an empty shape, leaves nothing to search for.
PartitionOptions Executable::Cuts(const RowLayout& layout, const PartitionOptions& asked) {
  if (options_.schedule != ScheduleKind::kAuto) return CutsOf(options_.schedule, layout, asked);
  if (options_.recompute || layout.rows() == 0) {
    return CutsOf(ScheduleKind::kTurboLstm, layout, asked);
  }
  const int64_t steps = BucketOf(layout.steps());
  const auto [found, is_new] = proportions_.try_emplace({steps, layout.batch()});
  if (is_new) {
    found->second = RankedCandidates(lowered_, steps, layout.batch(), asked).front().proportions;
  }
  return CutsOf(found->second, layout, asked);
}

// A pure function of the shape, unless measured: lengths change how much there is to do, not who
// does it.
Plan Executable::NewPlan(int64_t steps, int64_t batch) {
  if (!options_.given_plan.empty() && ShapeOfPlan(options_.given_plan) == PlanShape{steps, batch}) {
    return Finished(ParsePlan(options_.given_plan, lowered_));
  }
  const RowLayout layout(steps, batch);
  const bool tune = options_.schedule == ScheduleKind::kAuto && options_.tune.seconds > 0 &&
                    !options_.recompute && layout.rows() > 0;
  if (tune) return Finished(TunedPlan(lowered_, options_, pool_, steps, batch));
  const PartitionOptions asked{.streams = options_.streams,
                               .time_block = options_.time_block,
                               .row_tile = options_.row_tile,
                               .sum_block = options_.sum_block,
                               .save_memory = options_.recompute};
  return Finished(MakePlan(lowered_, steps, batch, Cuts(layout, asked)));
}

// Proves it where that is asked for, and divides it where inputs come late.
Plan Executable::Finished(Plan plan) const {
  TL_CHECK(std::ssize(plan.schedule.streams) <= options_.streams,
           "[plan] the plan has {} streams, there are {}", plan.schedule.streams.size(),
           options_.streams);
  TL_CHECK(plan.partition.options.save_memory == options_.recompute,
           "[plan] the plan says save_memory {}, the options {}",
           plan.partition.options.save_memory, options_.recompute);
  if (options_.verify) VerifySchedule(plan.partition.tasks, plan.schedule);
  if (!options_.late_inputs.empty()) {
    plan.halves = SplitPlan(lowered_, plan.partition, options_.late_inputs,
                            plan.partition.options.streams, options_.verify);
  }
  return plan;
}

Plan Executable::PlanWith(const PartitionOptions& cuts) const {
  return Finished(MakePlan(lowered_, layout_.steps(), layout_.batch(), cuts));
}

void Executable::Use(Plan plan) {
  TL_CHECK(plan.steps == layout_.steps() && plan.batch == layout_.batch(),
           "[plan] the plan is for {} steps of {} sequences, the shape has {} of {}", plan.steps,
           plan.batch, layout_.steps(), layout_.batch());
  KeptPlan& kept = plans_[{plan.steps, plan.batch}];
  auto next = std::make_unique<Plan>(Finished(std::move(plan)));
  std::swap(kept.plan, next);
  Enter(*kept.plan);
}

int64_t Executable::ElementsOf(const NamedView& value) const {
  return turbolstm::ElementsOf(value, layout_.steps(), layout_.batch());
}

void Executable::BindBytes(std::string_view name, const std::byte* data, int64_t elements,
                           bool index) {
  const NamedView& input = InputNamed(lowered_, name, index);
  CheckElements(input, elements, layout_.steps(), layout_.batch());
  bound_.insert_or_assign(std::string(name), Bound{data, elements});
  if (input.domain == Domain::kStatic) weights_packed_ = false;
}

void Executable::Bind(std::string_view name, std::span<const float> values) {
  BindBytes(name, reinterpret_cast<const std::byte*>(values.data()), std::ssize(values), false);
}

void Executable::BindIndices(std::string_view name, std::span<const int32_t> indices) {
  BindBytes(name, reinterpret_cast<const std::byte*>(indices.data()), std::ssize(indices), true);
}

void Executable::BindRows(std::string_view name, std::span<const float> values) {
  const NamedView& input = InputNamed(lowered_, name, false);
  TL_CHECK(input.domain == Domain::kStep, "[bind] '{}' has no rows of steps", name);
  const int64_t wanted = layout_.rows() * input.view.width;
  TL_CHECK(std::ssize(values) == wanted, "[bind] '{}' got {} elements, {} rows of {} have {}", name,
           values.size(), layout_.rows(), input.view.width, wanted);
  bound_.insert_or_assign(
      std::string(name),
      Bound{reinterpret_cast<const std::byte*>(values.data()), std::ssize(values), true});
}

void Executable::Place(const NamedView& input) {
  const auto bound = bound_.find(input.name);
  TL_CHECK(bound != bound_.end(), "[run] '{}' is not bound", input.name);
  const auto& [data, elements, rows] = bound->second;
  const int64_t wanted = rows ? layout_.rows() * input.view.width : ElementsOf(input);
  TL_CHECK(elements == wanted, "[run] '{}' was bound with {} elements, the shape wants {}",
           input.name, elements, wanted);
  if (rows || input.domain == Domain::kStatic || layout_.dense()) {
    memory_.Bind(input.view.buffer, const_cast<std::byte*>(data));
  } else {
    PackInput(input, data);
  }
}

void Executable::PlaceInputs(bool late) {
  for (const NamedView& input : lowered_.inputs) {
    const bool is_late =
        std::ranges::find(options_.late_inputs, input.name) != options_.late_inputs.end();
    if (is_late == late) Place(input);
  }
}

void Executable::PackInput(const NamedView& value, const std::byte* from) {
  std::byte* to = memory_.Own(value.view.buffer);
  const size_t row = static_cast<size_t>(value.view.width) * sizeof(float);
  ForEachValidRow(layout_, value.domain, [&](int64_t t, int64_t place, int64_t theirs) {
    const int64_t ours = layout_.row(value.domain, t, place);
    std::copy_n(from + static_cast<size_t>(theirs) * row, row,
                to + static_cast<size_t>(ours) * row);
  });
}

void Executable::Begin(const RunOptions& options) {
  progress_ = Progress::kNothing;
  TL_CHECK(has_memory_, "[run] SetShape found no memory for {} steps of {} sequences",
           layout_.steps(), layout_.batch());
  PlaceInputs(false);
  state_.training = options.training;
  state_.seed = options.seed;
  state_.training_step = options.training_step;
  state_.slots = &plan_->partition.weights;
}

void Executable::End(Progress progress) {
  progress_ = progress;
  if (progress == Progress::kAll) weights_packed_ = true;
  KeepBoundOutputs();
}

void Executable::Run(const RunOptions& options) {
  if (!options_.late_inputs.empty()) {
    RunEarly(options);
    return RunLate();
  }
  Begin(options);
  times_.resize(record_times_ ? plan_->partition.tasks.size() : 0);
  pool_->Run(
      plan_->program, [this](int32_t task, int stream) { RunTask(task, stream); }, times_);
  End(Progress::kAll);
}

void Executable::RunEarly(const RunOptions& options) {
  TL_CHECK(!options_.late_inputs.empty(), "[run] no inputs come late, so there are no halves");
  Begin(options);
  const PlanHalf& half = plan_->halves.early;
  pool_->Run(half.program,
             [&](int32_t i, int stream) { RunTask(half.tasks[static_cast<size_t>(i)], stream); });
  End(Progress::kEarly);
}

// A second time the first half's results are overwritten already.
void Executable::RunLate() {
  TL_CHECK(progress_ == Progress::kEarly,
           "[run] the second half (backward) follows a first half (forward), once each time");
  PlaceInputs(true);
  progress_ = Progress::kNothing;
  const PlanHalf& half = plan_->halves.late;
  pool_->Run(half.program,
             [&](int32_t i, int stream) { RunTask(half.tasks[static_cast<size_t>(i)], stream); });
  End(Progress::kAll);
}

// Outputs that are inputs outlive the memory these were bound in.
void Executable::KeepBoundOutputs() {
  for (const NamedView& output : lowered_.outputs) {
    if (!IsReady(output)) continue;
    if (IsBound(output) && (layout_.dense() || output.domain == Domain::kStatic)) {
      const auto* values = reinterpret_cast<const float*>(memory_.base(output.view.buffer, 0));
      unpacked_[output.name].assign(values, values + ElementsOf(output));
    }
  }
}

bool Executable::IsBound(const NamedView& value) const {
  return lowered_.buffers[static_cast<size_t>(value.view.buffer)].source != BufferSource::kComputed;
}

void Executable::RunTask(int32_t index, int stream) {
  const Task& task = plan_->partition.tasks[static_cast<size_t>(index)];
  const Work& work = plan_->partition.work[static_cast<size_t>(index)];
  StageRunner& runner = runners_[static_cast<size_t>(stream)];
  if (work.weight >= 0) {
    const bool hoisted = lowered_.weights[static_cast<size_t>(work.weight)].hoisted;
    const WeightSlots& slots = plan_->partition.weights;
    if (!weights_packed_ || !hoisted || slots.IsShared(work.weight)) {
      runner.PackWeight(work.weight, work.part,
                        &weights_[static_cast<size_t>(slots.slot_of(work.weight))]);
    }
    return;
  }
  if (work.update >= 0) {
    if (update_) {
      update_(static_cast<size_t>(work.update), task.row_begin, task.row_end - task.row_begin);
    }
    return;
  }
  runner.SetBlock(task.time_begin);
  RunGroup(lowered_.groups[static_cast<size_t>(work.group)], task, work, &runner);
}

void Executable::RunGroup(const Group& group, const Task& task, const Work& work,
                          StageRunner* runner) {
  const int64_t steps = task.time_end - task.time_begin;
  switch (KindOfWork(group)) {
    case WorkKind::kLoop:
      runner->SetTile(task.row_begin);
      for (int64_t i = 0; i < steps; ++i) {
        const int64_t t =
            group.direction == Direction::kForward ? task.time_begin + i : task.time_end - 1 - i;
        const StepRows rows{t, task.row_begin, std::min(task.row_end, layout_.count(t))};
        for (const Stage& stage : group.stages) runner->RunRows(stage, rows);
      }
      return;
    case WorkKind::kSteps:
      for (const Stage& stage : group.stages) {
        if (steps == 1) {
          const int64_t end = std::min(task.row_end, layout_.count(task.time_begin));
          runner->RunRows(stage, {task.time_begin, task.row_begin, end});
        } else {
          runner->RunSteps(stage, task.time_begin, task.time_end);
        }
      }
      return;
    case WorkKind::kRows:
      for (const Stage& stage : group.stages) {
        runner->RunRows(stage, {0, task.row_begin, task.row_end});
      }
      return;
    case WorkKind::kStatic:
      for (const Stage& stage : group.stages) runner->RunStatic(stage);
      return;
    case WorkKind::kReduction:
      return runner->RunReduction(group.stages[0], task.time_begin, task.time_end, task.row_begin,
                                  task.row_end, work.first);
    case WorkKind::kWhole:
      return runner->RunWhole(group.stages[0]);
  }
}

std::span<const float> Executable::GradientOf(size_t i) const {
  return StaticValue(lowered_.updates[i].gradient);
}

std::span<const float> Executable::Guard() const {
  return StaticValue(lowered_.updates.front().guard);
}

std::span<const float> Executable::StaticValue(const View& view) const {
  return {reinterpret_cast<const float*>(memory_.base(view.buffer, 0)) + view.column,
          static_cast<size_t>(view.width)};
}

bool Executable::IsReady(const NamedView& output) const {
  return progress_ == Progress::kAll ||
         (progress_ == Progress::kEarly &&
          !plan_->halves.is_late[static_cast<size_t>(output.view.buffer)]);
}

const NamedView& Executable::ReadyOutput(std::string_view name) const {
  const NamedView& output = OutputNamed(lowered_, name);
  TL_CHECK(progress_ != Progress::kNothing, "[output] '{}' is asked for before a run of this shape",
           name);
  TL_CHECK(IsReady(output), "[output] '{}' is asked for before the second half of the run", name);
  return output;
}

std::span<const float> Executable::OutputRows(std::string_view name) {
  const NamedView& output = ReadyOutput(name);
  TL_CHECK(output.domain == Domain::kStep && !IsBound(output), "[output] '{}' has no rows of steps",
           name);
  return {reinterpret_cast<const float*>(memory_.base(output.view.buffer, 0)),
          static_cast<size_t>(layout_.rows() * output.view.width)};
}

std::span<const float> Executable::Output(std::string_view name) {
  const NamedView& output = ReadyOutput(name);
  if (IsBound(output) && (layout_.dense() || output.domain == Domain::kStatic)) {
    return unpacked_[output.name];
  }
  if (output.domain != Domain::kStatic && !layout_.dense()) return Unpacked(output);
  return {reinterpret_cast<const float*>(memory_.base(output.view.buffer, 0)),
          static_cast<size_t>(ElementsOf(output))};
}

std::span<const float> Executable::Unpacked(const NamedView& value) {
  std::vector<float>& values = unpacked_[value.name];
  values.assign(static_cast<size_t>(ElementsOf(value)), 0.0f);
  const auto* from = reinterpret_cast<const float*>(memory_.base(value.view.buffer, 0));
  ForEachValidRow(layout_, value.domain, [&](int64_t t, int64_t place, int64_t theirs) {
    const int64_t ours = layout_.row(value.domain, t, place);
    std::copy_n(from + ours * value.view.width, value.view.width,
                values.data() + theirs * value.view.width);
  });
  return values;
}

}  // namespace turbolstm
