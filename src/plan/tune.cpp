#include "plan/tune.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/file_cache.h"
#include "base/machine.h"
#include "plan/any_inputs.h"
#include "plan/auto_schedule.h"
#include "plan/dependencies.h"
#include "plan/known_schedules.h"
#include "plan/race.h"
#include "turbolstm/version.h"

namespace turbolstm {
namespace {

// Of the cost model's ranking.
constexpr size_t kMeasured = 8;
// More tasks than this are not measured: a step of them takes long by itself.
constexpr size_t kMostTasks = 20'000;

std::string ViewText(const View& view) {
  return fmt::format("{}[{}+{}]", view.buffer, view.column, view.width);
}

std::string StageText(const Stage& stage) {
  std::string text =
      fmt::format("  {} {} {}", static_cast<int>(stage.kind), Traits(stage.op).name, stage.weight);
  for (const Operand& operand : stage.inputs) {
    text += fmt::format(" {}@{}", ViewText(operand.view), operand.delay);
  }
  text += " ->";
  for (const View& view : stage.outputs) text += fmt::format(" {}", ViewText(view));
  if (stage.kind == Stage::Kind::kPointwise) text += fmt::format(" {}", stage.program.Text());
  return text + "\n";
}

// Everything that the fastest plan depends on.
std::string KeyOf(const LoweredGraph& graph, const ExecutableOptions& options, int64_t steps,
                  int64_t batch) {
  std::string key = fmt::format(
      "version {}\nmachine {}{}\nprecision {}\nshape {} {}\nstreams {}\ncuts {} {} {}\nlate {}\n",
      Version(), MachineName(), options.tune.machine, Name(graph.precision), steps, batch,
      options.streams, options.time_block, options.row_tile, options.sum_block,
      fmt::join(options.late_inputs, " "));
  for (const Buffer& buffer : graph.buffers) {
    key += fmt::format("buffer {} {} {} {} {}\n", Name(buffer.domain), buffer.width,
                       static_cast<int>(buffer.dtype), buffer.local, buffer.ring);
  }
  for (const ParameterUpdate& update : graph.updates) {
    key += fmt::format("update {} of {}\n", ViewText(update.parameter), ViewText(update.gradient));
  }
  for (const Group& group : graph.groups) {
    key += fmt::format("group {} {} {} {}\n", group.name, Name(group.kind), Name(group.domain),
                       static_cast<int>(group.direction));
    for (const Stage& stage : group.stages) key += StageText(stage);
  }
  return key;
}

FileCache CacheOf(const ExecutableOptions& options) {
  return {options.tune.cache.empty() ? std::filesystem::path() : options.tune.cache / "plans",
          "plan"};
}

std::optional<Plan> KeptPlan(const LoweredGraph& graph, const FileCache& cache,
                             const std::string& key, PlanShape shape, int streams) {
  const auto bytes = cache.Find(key);
  if (!bytes) return std::nullopt;
  try {
    const std::string_view text(bytes->data(), bytes->size());
    if (ShapeOfPlan(text) != shape || StreamsOfPlan(text) > streams) return std::nullopt;
    return ParsePlan(text, graph);
  } catch (const Error&) {
    return std::nullopt;  // it is measured anew, and replaced
  }
}

class Tuner {
 public:
  Tuner(const LoweredGraph& graph, const ExecutableOptions& options,
        const std::shared_ptr<StreamPool>& pool, int64_t steps, int64_t batch)
      : options_(options), probe_(graph, ProbeOptions(options), pool) {
    probe_.SetShape(steps, batch);
    inputs_.emplace(&probe_, steps, batch);
    FindPlans();
  }

  Plan Run() {
    constexpr double kShareOfFirstRace = 0.8;
    constexpr double kHopeless = 1.1;
    const std::vector<Lap> laps =
        RacePlans(plans_, {kShareOfFirstRace * options_.tune.seconds, kHopeless}, &probe_);
    const auto best =
        static_cast<size_t>(std::ranges::min_element(laps, {}, &Lap::median) - laps.begin());
    std::vector<Plan> finalists{plans_[best], ScheduledByMeasurement(plans_[best])};
    const std::vector<Lap> last =
        RacePlans(finalists, {(1 - kShareOfFirstRace) * options_.tune.seconds, kHopeless}, &probe_);
    return finalists[last[1].median < last[0].median ? 1 : 0];
  }

 private:
  static ExecutableOptions ProbeOptions(ExecutableOptions options) {
    options.schedule = ScheduleKind::kTurboLstm;
    options.tune = {};
    options.given_plan.clear();
    return options;
  }

  void FindPlans() {
    const PartitionOptions asked{.streams = options_.streams,
                                 .time_block = options_.time_block,
                                 .row_tile = options_.row_tile,
                                 .sum_block = options_.sum_block};
    const RowLayout& layout = probe_.layout();
    const LoweredGraph& graph = probe_.lowered();
    for (const ScheduleKind kind : kScheduleKinds) {
      if (kind != ScheduleKind::kAuto && kind != ScheduleKind::kCellWavefront) {
        Add(CutsOf(kind, layout, asked));
      }
    }
    const std::vector<Candidate> ranked =
        RankedCandidates(graph, layout.steps(), layout.batch(), asked);
    for (size_t i = 0; i < std::min(kMeasured, ranked.size()); ++i) {
      Add(CutsOf(ranked[i].proportions, layout, asked));
    }
  }

  void Add(const PartitionOptions& cuts) {
    const PartitionOptions completed = Completed(probe_.lowered(), probe_.layout(), cuts);
    const bool known = std::ranges::any_of(
        plans_, [&](const Plan& plan) { return plan.partition.options == completed; });
    if (known) return;
    Plan plan = probe_.PlanWith(completed);
    if (plan.partition.tasks.size() <= kMostTasks) plans_.push_back(std::move(plan));
  }

  // Costs are what tasks of the same kind and size took on average.
  Plan ScheduledByMeasurement(Plan plan) {
    constexpr int kRuns = 3;
    using Kind = std::tuple<int32_t, int64_t, int64_t>;
    std::map<Kind, std::pair<double, int>> sums;
    std::vector<Task>& tasks = plan.partition.tasks;
    const auto kind = [](const Task& task) {
      return Kind{task.group, task.time_end - task.time_begin, task.row_end - task.row_begin};
    };
    probe_.Use(plan);
    probe_.RecordTimes(true);
    for (int run = 0; run < kRuns; ++run) {
      probe_.ParametersChanged();
      probe_.Run({.training = true});
      for (size_t i = 0; i < tasks.size(); ++i) {
        auto& [sum, count] = sums[kind(tasks[i])];
        sum += probe_.task_times()[i].finish - probe_.task_times()[i].start;
        ++count;
      }
    }
    probe_.RecordTimes(false);
    for (Task& task : tasks) {
      const auto& [sum, count] = sums[kind(task)];
      task.cost = sum / count;
    }
    plan.schedule = ListSchedule(tasks, DeriveDependencies(tasks), plan.partition.options.streams);
    plan.program = StreamProgram(plan.schedule.streams, plan.schedule.waits);
    return plan;
  }

  const ExecutableOptions& options_;
  Executable probe_;
  std::optional<AnyInputs> inputs_;
  std::vector<Plan> plans_;
};

}  // namespace

std::filesystem::path FileOfTunedPlan(const LoweredGraph& graph, const ExecutableOptions& options,
                                      int64_t steps, int64_t batch) {
  return CacheOf(options).FileOf(KeyOf(graph, options, steps, batch));
}

Plan TunedPlan(const LoweredGraph& graph, const ExecutableOptions& options,
               const std::shared_ptr<StreamPool>& pool, int64_t steps, int64_t batch) {
  const std::string key = KeyOf(graph, options, steps, batch);
  const FileCache cache = CacheOf(options);
  if (auto kept = KeptPlan(graph, cache, key, {steps, batch}, options.streams)) {
    return std::move(*kept);
  }
  // As it is read back: the same the first time as later.
  Plan plan = ParsePlan(PrintPlan(Tuner(graph, options, pool, steps, batch).Run()), graph);
  const std::string text = PrintPlan(plan);
  cache.Store(key, {text.begin(), text.end()});
  return plan;
}

}  // namespace turbolstm
