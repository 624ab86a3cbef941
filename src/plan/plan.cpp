#include "plan/plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "plan/dependencies.h"
#include "plan/print.h"

namespace turbolstm {
namespace {

// What stands in front of the streams, one number a line.
struct PlanHead {
  PlanShape shape;
  PartitionOptions cuts;
};

constexpr std::string_view kStream = "stream ";

struct Field {
  std::string_view name;
  int64_t least;
};
constexpr std::array<Field, 9> kFields{{{"steps", 0},
                                        {"batch", 0},
                                        {"streams", 1},
                                        {"time_block", 1},
                                        {"row_tile", 1},
                                        {"sum_block", 0},
                                        {"step_parts", 1},
                                        {"one_by_one", 0},
                                        {"save_memory", 0}}};
using FieldValues = std::array<std::optional<int64_t>, kFields.size()>;

std::string_view Trimmed(std::string_view line) {
  line = line.substr(0, line.find('#'));
  const size_t begin = line.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
}

int64_t NumberIn(std::string_view text, std::string_view line, int number, int64_t least) {
  constexpr int64_t kMost = int64_t{1} << 40;
  int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  TL_CHECK(
      error == std::errc() && end == text.data() + text.size() && value >= least && value <= kMost,
      "[plan] line {} is '{}', wants a number from {} to {}", number, line, least, kMost);
  return value;
}

void ReadField(std::string_view line, int number, FieldValues* values) {
  const size_t space = std::min(line.find_first_of(" \t"), line.size());
  const std::string_view name = line.substr(0, space);
  const auto field = std::ranges::find(kFields, name, &Field::name);
  TL_CHECK(field != kFields.end(),
           "[plan] line {} is '{}', wants a setting of a plan or 'stream 0'", number, line);
  std::optional<int64_t>& value = (*values)[static_cast<size_t>(field - kFields.begin())];
  TL_CHECK(!value, "[plan] line {} sets {} again", number, name);
  value = NumberIn(Trimmed(line.substr(space)), line, number, field->least);
}

// Where the streams begin; reads what stands before.
size_t ReadFields(std::string_view text, FieldValues* values) {
  size_t begin = 0;
  for (int number = 1; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = Trimmed(text.substr(begin, end - begin));
    if (line.starts_with(kStream)) return begin;
    if (!line.empty()) ReadField(line, number, values);
    begin = end + 1;
  }
  return text.size();
}

PlanHead HeadOf(const FieldValues& values) {
  const auto at = [&](std::string_view name) {
    const auto field = std::ranges::find(kFields, name, &Field::name);
    const std::optional<int64_t>& value = values[static_cast<size_t>(field - kFields.begin())];
    TL_CHECK(value, "[plan] the text does not say '{}'", name);
    return *value;
  };
  constexpr int64_t kMostStreams = 4096;
  TL_CHECK(at("streams") <= kMostStreams, "[plan] got {} streams, wants at most {}", at("streams"),
           kMostStreams);
  return {{at("steps"), at("batch")},
          {.streams = static_cast<int>(at("streams")),
           .time_block = at("time_block"),
           .row_tile = at("row_tile"),
           .sum_block = at("sum_block"),
           .step_parts = at("step_parts"),
           .one_by_one = at("one_by_one") != 0,
           .save_memory = at("save_memory") != 0}};
}

PlanHead HeadOf(std::string_view text) {
  FieldValues values;
  ReadFields(text, &values);
  return HeadOf(values);
}

}  // namespace

Plan MakePlan(const LoweredGraph& graph, int64_t steps, int64_t batch,
              const PartitionOptions& cuts) {
  Plan plan;
  plan.steps = steps;
  plan.batch = batch;
  plan.partition = PartitionWork(graph, RowLayout(steps, batch), cuts);
  const std::vector<Task>& tasks = plan.partition.tasks;
  plan.schedule = ListSchedule(tasks, DeriveDependencies(tasks), plan.partition.options.streams);
  plan.program = StreamProgram(plan.schedule.streams, plan.schedule.waits);
  return plan;
}

int64_t BytesOf(const Plan& plan) {
  size_t bytes = plan.partition.work.size() * sizeof(Work);
  for (const Task& task : plan.partition.tasks) {
    bytes += sizeof(Task) + (task.reads.capacity() + task.writes.capacity()) * sizeof(Access);
  }
  // Lists of the schedule, with what an allocation takes beside its bytes.
  constexpr size_t kList = sizeof(std::vector<int32_t>) + 32;
  bytes += plan.partition.tasks.size() * (kList + sizeof(TaskTime) + sizeof(StreamProgram::Step));
  return static_cast<int64_t>(bytes);
}

std::string PrintPlan(const Plan& plan) {
  const PartitionOptions& cuts = plan.partition.options;
  const std::vector<Task>& tasks = plan.partition.tasks;
  const std::array<int64_t, kFields.size()> values{
      plan.steps,     plan.batch,      cuts.streams,    cuts.time_block, cuts.row_tile,
      cuts.sum_block, cuts.step_parts, cuts.one_by_one, cuts.save_memory};
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    text += fmt::format("{} {}\n", kFields[i].name, values[i]);
  }
  return text + PrintSchedule(tasks, DeriveDependencies(tasks), plan.schedule);
}

Plan ParsePlan(std::string_view text, const LoweredGraph& graph) {
  FieldValues values;
  const size_t streams = ReadFields(text, &values);
  const PlanHead head = HeadOf(values);
  Plan plan = MakePlan(graph, head.shape.steps, head.shape.batch, head.cuts);
  if (streams == text.size()) return plan;
  const std::vector<Task>& tasks = plan.partition.tasks;
  // Errors count lines from the beginning of the text.
  const auto lines =
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(streams), '\n');
  const std::string schedule =
      std::string(static_cast<size_t>(lines), '\n') + std::string(text.substr(streams));
  plan.schedule = ParseSchedule(schedule, tasks, DeriveDependencies(tasks));
  TL_CHECK(std::ssize(plan.schedule.streams) <= head.cuts.streams,
           "[plan] there are {} streams of tasks, the text says 'streams {}'",
           plan.schedule.streams.size(), head.cuts.streams);
  plan.program = StreamProgram(plan.schedule.streams, plan.schedule.waits);
  return plan;
}

PlanShape ShapeOfPlan(std::string_view text) {
  return HeadOf(text).shape;
}

int StreamsOfPlan(std::string_view text) {
  return HeadOf(text).cuts.streams;
}

}  // namespace turbolstm
