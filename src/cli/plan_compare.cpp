#include "cli/plan_compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/peak_memory.h"
#include "cli/table.h"
#include "plan/any_inputs.h"
#include "plan/race.h"

namespace turbolstm::cli {
namespace {

constexpr double kMilli = 1e3;
constexpr double kMiB = 1024.0 * 1024;

struct Row {
  ScheduleKind kind;
  Plan plan;
  double predicted_mib = 0;
  double measured_mib = 0;
};

ExecutableOptions Scheduled(ExecutableOptions options, ScheduleKind kind) {
  options.schedule = kind;
  return options;
}

// Makes the plan.
Plan PlanOf(const PlannedNetwork& network, const ExecutableOptions& options,
            const CompareRequest& request, const std::shared_ptr<StreamPool>& pool) {
  Executable executable(network.graph, options, pool);
  executable.SetShape(request.steps, request.batch);
  return executable.plan();
}

// Makes the plan and, where it is to be run, runs it once in memory of its own.
Row PlanOne(const PlannedNetwork& network, const ExecutableOptions& options,
            const CompareRequest& request, const std::shared_ptr<StreamPool>& pool) {
  Row row{options.schedule, PlanOf(network, options, request, pool), 0, 0};
  // What finding the plan took is not what the plan takes.
  ExecutableOptions given = options;
  given.given_plan = PrintPlan(row.plan);
  const PeakMemory memory;
  Executable executable(network.graph, given, pool);
  executable.SetShape(request.steps, request.batch);
  const Plan& plan = executable.plan();
  const int64_t bytes =
      PlannedBytes(executable.lowered(), executable.layout(), plan.partition, options.streams) +
      BytesOf(plan);
  row.predicted_mib = static_cast<double>(bytes) / kMiB;
  if (request.seconds > 0) {
    const AnyInputs inputs(&executable, request.steps, request.batch);
    const double bound = inputs.Mebibytes();
    executable.Run({.training = true});
    row.measured_mib = memory.Mebibytes() - bound;
  }
  return row;
}

}  // namespace

std::string CompareSchedules(const PlannedNetwork& network, const ExecutableOptions& options,
                             const CompareRequest& request) {
  const auto pool = std::make_shared<StreamPool>(options.streams);
  // Threads and code are there before memory is looked at.
  PlanOne(network, Scheduled(options, ScheduleKind::kSequential), request, pool);
  std::vector<Row> rows;
  std::vector<Plan> plans;
  std::vector<size_t> plan_of;  // by row: who is cut alike runs alike
  for (const ScheduleKind kind : kScheduleKinds) {
    rows.push_back(PlanOne(network, Scheduled(options, kind), request, pool));
    const Plan& plan = rows.back().plan;
    const auto same = std::ranges::find_if(plans, [&](const Plan& other) {
      return other.schedule.streams == plan.schedule.streams &&
             other.partition.options == plan.partition.options;
    });
    plan_of.push_back(static_cast<size_t>(same - plans.begin()));
    if (same == plans.end()) plans.push_back(plan);
  }
  std::vector<Lap> laps(plans.size());
  if (request.seconds > 0) {
    Executable executable(network.graph, Scheduled(options, ScheduleKind::kTurboLstm), pool);
    executable.SetShape(request.steps, request.batch);
    const AnyInputs inputs(&executable, request.steps, request.batch);
    laps = RacePlans(plans, {.seconds = request.seconds}, &executable);
  }
  const double ours = laps[plan_of.back()].median;  // of kAuto
  using Align = Table::Align;
  Table table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight,
               Align::kRight, Align::kRight, Align::kRight, Align::kRight, Align::kRight});
  table.Add({"schedule", "streams", "tasks", "steps", "rows", "predicted ms", "measured ms",
             "of auto's", "predicted MiB", "measured MiB"});
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const PartitionOptions& cuts = row.plan.partition.options;
    const bool run = request.seconds > 0;
    table.Add({std::string(Name(row.kind)), fmt::format("{}", row.plan.schedule.streams.size()),
               fmt::format("{}", row.plan.partition.tasks.size()),
               fmt::format("{}", cuts.time_block), fmt::format("{}", cuts.row_tile),
               fmt::format("{:.3f}", kMilli * row.plan.schedule.EstimatedSeconds()),
               run ? fmt::format("{:.3f}", kMilli * laps[plan_of[i]].median) : "",
               run ? fmt::format("{:.2f}", laps[plan_of[i]].median / ours) : "",
               fmt::format("{:.1f}", row.predicted_mib),
               run ? fmt::format("{:.1f}", row.measured_mib) : ""});
  }
  return table.Text();
}

}  // namespace turbolstm::cli
