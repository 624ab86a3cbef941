#include "plan/print.h"

#include <algorithm>

#include "base/error.h"
#include "plan/verify.h"

namespace turbolstm {
namespace {

constexpr double kMicro = 1e6;  // microseconds a second

// Names go between other things on a line: no comment signs, quotes or line ends in them.
std::string PlainName(std::string_view name) {
  std::string plain(name);
  for (char& c : plain) {
    if (c == '#' || c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ') c = '_';
  }
  const size_t begin = plain.find_first_not_of(' ');
  if (begin == std::string::npos) return "";
  return plain.substr(begin, plain.find_last_not_of(' ') + 1 - begin);
}

std::string Percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f} %", 100 * part / whole) : "-";
}

std::string Comment(const Schedule& schedule, int32_t task, bool critical) {
  const TaskTime& time = schedule.estimate[task];
  std::string text = fmt::format("{:.3f} .. {:.3f} us", kMicro * time.start, kMicro * time.finish);
  if (!schedule.waits[task].empty()) {
    text += fmt::format(", waits for {}", fmt::join(schedule.waits[task], " "));
  }
  if (critical) text += ", critical";
  return text;
}

// Follows a text line by line, without comments and surrounding blanks.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  // False at the end of the text.
  bool Next() {
    if (rest_.empty()) return false;
    ++number_;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    line_ = line_.substr(0, line_.find('#'));
    const size_t begin = line_.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) {
      line_ = {};
    } else {
      line_ = line_.substr(begin, line_.find_last_not_of(" \t\r") + 1 - begin);
    }
    return true;
  }

  int number() const { return number_; }
  std::string_view line() const { return line_; }

 private:
  std::string_view rest_;
  std::string_view line_;
  int number_ = 0;
};

// The number at the front of `text`, which is cut off together with the blanks behind it; -1 if
// there is none or it has more than nine digits.
int32_t TakeNumber(std::string_view& text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0 || digits > 9) return -1;
  const int32_t number = std::stoi(std::string(text.substr(0, digits)));
  text.remove_prefix(digits);
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return number;
}

constexpr std::string_view kStream = "stream ";

}  // namespace

std::string PrintSchedule(std::span<const Task> tasks, const Dependencies& dependencies,
                          const Schedule& schedule) {
  const std::vector<int32_t> path = CriticalPath(tasks, dependencies);
  std::vector<bool> critical(tasks.size(), false);
  double path_seconds = 0;
  for (const int32_t task : path) {
    critical[task] = true;
    path_seconds += tasks[task].cost;
  }
  const double seconds = schedule.EstimatedSeconds();
  std::string text = fmt::format(
      "# {} tasks on {} streams, estimated {:.3f} us; critical path of {} tasks, {:.3f} us\n",
      tasks.size(), schedule.streams.size(), kMicro * seconds, path.size(), kMicro * path_seconds);
  for (size_t s = 0; s < schedule.streams.size(); ++s) {
    double busy = 0;
    for (const int32_t task : schedule.streams[s]) busy += tasks[task].cost;
    text += fmt::format("{}{}  # {} tasks, busy {:.3f} us, {}\n", kStream, s,
                        schedule.streams[s].size(), kMicro * busy, Percent(busy, seconds));
    for (const int32_t task : schedule.streams[s]) {
      text += fmt::format("  {:>5} {:<40}  # {}\n", task, PlainName(tasks[task].name),
                          Comment(schedule, task, critical[task]));
    }
  }
  return text;
}

Schedule ParseSchedule(std::string_view text, std::span<const Task> tasks,
                       const Dependencies& dependencies, const MachineModel& machine) {
  std::vector<std::vector<int32_t>> streams;
  for (Lines lines(text); lines.Next();) {
    std::string_view line = lines.line();
    if (line.empty()) continue;
    if (line.starts_with(kStream)) {
      line.remove_prefix(kStream.size());
      TL_CHECK(TakeNumber(line) == static_cast<int32_t>(streams.size()) && line.empty(),
               "[schedule] line {} is '{}', wants 'stream {}'", lines.number(), lines.line(),
               streams.size());
      streams.emplace_back();
      continue;
    }
    TL_CHECK(!streams.empty(), "[schedule] line {} is '{}', wants 'stream 0' first", lines.number(),
             lines.line());
    const int32_t task = TakeNumber(line);
    TL_CHECK(task >= 0 && task < static_cast<int32_t>(tasks.size()),
             "[schedule] line {} is '{}', wants a stream or a task, which are 0 .. {}",
             lines.number(), lines.line(), static_cast<int64_t>(tasks.size()) - 1);
    // A name that differs means that the text belongs to another plan.
    TL_CHECK(line.empty() || line == PlainName(tasks[task].name),
             "[schedule] line {} calls task {} '{}', this plan calls it '{}'", lines.number(), task,
             line, tasks[task].name);
    streams.back().push_back(task);
  }
  Schedule schedule = CompleteSchedule(tasks, dependencies, std::move(streams), machine);
  VerifySchedule(tasks, schedule);
  return schedule;
}

}  // namespace turbolstm
