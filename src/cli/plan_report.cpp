#include "cli/plan_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/table.h"
#include "execution/device_lowering.h"
#include "execution/memory_plan.h"
#include "plan/dependencies.h"
#include "plan/footprint.h"
#include "plan/timeline.h"

namespace turbolstm::cli {
namespace {

using Align = Table::Align;

constexpr double kMilli = 1e3;
constexpr double kMiB = 1024.0 * 1024;

std::string Percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f} %", 100 * part / whole) : "-";
}

std::string Milliseconds(double seconds) {
  return fmt::format("{:.3f}", kMilli * seconds);
}

// How much of a value's rows are kept.
std::string Kept(const Buffer& buffer) {
  if (buffer.source == BufferSource::kParameter) return "parameter";
  if (buffer.source == BufferSource::kInput) return "input";
  if (buffer.local) return "one step, by stream";
  return buffer.ring > 0 ? fmt::format("{} steps", buffer.ring) : std::string(Name(buffer.domain));
}

// "loops 0.712, sums 0.102" of the critical path.
std::string PathKinds(const Timeline& timeline) {
  std::vector<std::string> parts;
  for (const TaskKind kind : kTaskKinds) {
    const double seconds = timeline.of(kind).critical;
    if (seconds > 0) parts.push_back(fmt::format("{} {}", Name(kind), Milliseconds(seconds)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string StreamsTable(const Plan& plan, const Timeline& timeline) {
  Table table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight});
  table.Add({"stream", "tasks", "busy", "waits for others"});
  for (size_t s = 0; s < plan.schedule.streams.size(); ++s) {
    size_t waits = 0;
    for (const int32_t task : plan.schedule.streams[s]) {
      waits += plan.schedule.waits[static_cast<size_t>(task)].size();
    }
    table.Add({fmt::format("{}", s), fmt::format("{}", plan.schedule.streams[s].size()),
               Percent(timeline.busy[s], timeline.seconds), fmt::format("{}", waits)});
  }
  return table.Text();
}

std::string KindsTable(const Timeline& timeline, bool measured) {
  Table table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight, Align::kRight});
  table.Add({"work", "tasks", "predicted ms", measured ? "measured ms" : "", "beside a loop"});
  for (const TaskKind kind : kTaskKinds) {
    const KindTotals& totals = timeline.of(kind);
    if (totals.tasks == 0) continue;
    table.Add({std::string(Name(kind)), fmt::format("{}", totals.tasks),
               Milliseconds(totals.predicted), measured ? Milliseconds(totals.taken) : "",
               kind == TaskKind::kLoop ? "" : Percent(totals.beside_loops, totals.taken)});
  }
  return table.Text();
}

}  // namespace

std::string Mebibytes(int64_t bytes) {
  return fmt::format("{:.1f}", static_cast<double>(bytes) / kMiB);
}

std::string PlanSummary(const PlannedNetwork& network, const Executable& executable,
                        std::string_view schedule, const PlanTimes& how_long,
                        std::span<const TaskTime> times) {
  const Plan& plan = executable.plan();
  const PartitionOptions& cuts = plan.partition.options;
  const std::vector<Task>& tasks = plan.partition.tasks;
  const Timeline timeline = TimelineOf(executable.lowered(), plan, times);
  const std::vector<int32_t> path = CriticalPath(tasks, DeriveDependencies(tasks));
  double path_seconds = 0;
  for (const int32_t task : path) path_seconds += tasks[static_cast<size_t>(task)].cost;
  std::string text;
  text += fmt::format("network    {}\n", network.description);
  text += fmt::format("shape      T {}, B {}\n", plan.steps, plan.batch);
  text += fmt::format("schedule   {}\n", schedule);
  text += fmt::format(
      "plan       {} tasks on {} streams; blocks of {} steps, tiles of {} sequences, sums of {} "
      "steps\n",
      tasks.size(), plan.schedule.streams.size(), cuts.time_block, cuts.row_tile, cuts.sum_block);
  text += fmt::format("estimate   {} ms; critical path of {} tasks, {} ms: {}\n",
                      Milliseconds(plan.schedule.EstimatedSeconds()), path.size(),
                      Milliseconds(path_seconds), PathKinds(timeline));
  text += fmt::format("memory     {} MiB beside inputs and parameters, {} of them packed weights\n",
                      Mebibytes(executable.memory_bytes()), Mebibytes(executable.packed_bytes()));
  text += fmt::format("planned    and verified in {} ms\n", Milliseconds(how_long.planning));
  if (how_long.runs > 0) {
    text += fmt::format("measured   {} ms, median of {}\n", Milliseconds(how_long.measured),
                        how_long.runs);
  }
  text += fmt::format("overlap    all streams are busy {} of the time\n",
                      Percent(timeline.all_busy, timeline.seconds));
  return text + "\n" + KindsTable(timeline, how_long.runs > 0) + "\n" +
         StreamsTable(plan, timeline);
}

std::string GroupsTable(const LoweredGraph& graph) {
  Table table({Align::kLeft, Align::kLeft, Align::kLeft, Align::kRight, Align::kRight});
  table.Add({"group", "kind", "runs over", "products deep", "kernels"});
  for (const Group& group : graph.groups) {
    const char* const arrow = group.direction == Direction::kForward ? "" : ", backwards";
    table.Add({group.name, std::string(Name(group.kind)),
               fmt::format("{}{}", Name(group.domain), group.is_loop() ? arrow : ""),
               group.is_loop() ? fmt::format("{}", group.levels) : "",
               fmt::format("{}", group.stages.size())});
  }
  return table.Text();
}

std::string MemoryTable(const Executable& executable) {
  struct Row {
    int64_t bytes;
    std::string name, kept;
  };
  std::vector<Row> rows;
  const std::vector<Buffer>& buffers = executable.lowered().buffers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    rows.push_back(
        {executable.memory().BytesOf(static_cast<int32_t>(i)), buffers[i].name, Kept(buffers[i])});
  }
  rows.push_back({executable.packed_bytes(), "packed weights", ""});
  std::ranges::stable_sort(rows, [](const Row& a, const Row& b) { return a.bytes > b.bytes; });
  Table table({Align::kLeft, Align::kLeft, Align::kRight});
  table.Add({"value", "kept", "MiB"});
  for (const Row& row : rows) {
    table.Add({row.name, row.kept, fmt::format("{:.3f}", static_cast<double>(row.bytes) / kMiB)});
  }
  return table.Text();
}

std::string RecomputeTable(const PlannedNetwork& network, const Executable& executable,
                           const ExecutableOptions& options) {
  const int64_t steps = executable.layout().steps();
  const int64_t batch = executable.layout().batch();
  ExecutableOptions other_options = options;
  other_options.recompute = !options.recompute;
  other_options.given_plan.clear();
  Executable other(network.graph, other_options);
  other.SetShape(steps, batch);
  Table table({Align::kLeft, Align::kRight, Align::kRight, Align::kRight});
  table.Add({"MiB", "saved for the backward pass", "in all, CPU", "GPU"});
  for (const bool recompute : {false, true}) {
    const Executable& planned = recompute == options.recompute ? executable : other;
    const LoweredGraph on_device =
        LowerForDevice(network.graph, options.precision, BoundaryType::kFloat32, recompute);
    MemoryPlan device_plan(on_device);
    device_plan.SetShape(steps, batch);
    table.Add({recompute ? "with --recompute" : "without",
               Mebibytes(SavedBytes(planned.lowered(), steps, batch)),
               Mebibytes(planned.memory_bytes()), Mebibytes(device_plan.shared_bytes())});
  }
  return table.Text();
}

}  // namespace turbolstm::cli
