#include <nlohmann/json.hpp>

#include "base/error.h"
#include "plan/print.h"

namespace turbolstm {
namespace {

using Json = nlohmann::ordered_json;

double Microseconds(double seconds) {
  return 1e6 * seconds;
}

Json ThreadName(size_t stream) {
  return {{"ph", "M"},
          {"name", "thread_name"},
          {"pid", 0},
          {"tid", stream},
          {"args", {{"name", fmt::format("stream {}", stream)}}}};
}

Json Slice(const Task& task, int32_t number, size_t stream, const TaskTime& time) {
  return {{"ph", "X"},
          {"name", task.name},
          {"pid", 0},
          {"tid", stream},
          {"ts", Microseconds(time.start)},
          {"dur", Microseconds(time.finish - time.start)},
          {"args",
           {{"task", number},
            {"time", {task.time_begin, task.time_end}},
            {"rows", {task.row_begin, task.row_end}},
            {"estimated_us", Microseconds(task.cost)}}}};
}

// One end of an arrow; "s" begins it inside the slice at that time, "f" ends it there.
Json Arrow(const char* phase, int64_t id, size_t stream, double seconds) {
  Json arrow = {{"ph", phase},
                {"id", id},
                {"name", "waits"},
                {"cat", "waits"},
                {"pid", 0},
                {"tid", stream},
                {"ts", Microseconds(seconds)}};
  if (*phase == 'f') arrow["bp"] = "e";
  return arrow;
}

}  // namespace

std::string PrintTrace(std::span<const Task> tasks, const Schedule& schedule,
                       std::span<const TaskTime> times) {
  TL_CHECK(times.size() == tasks.size(), "[trace] got {} times, the program has {} tasks",
           times.size(), tasks.size());
  Json events = Json::array();
  std::vector<size_t> stream_of(tasks.size(), 0);
  for (size_t s = 0; s < schedule.streams.size(); ++s) {
    events.push_back(ThreadName(s));
    for (const int32_t task : schedule.streams[s]) {
      stream_of[task] = s;
      events.push_back(Slice(tasks[task], task, s, times[task]));
    }
  }
  int64_t arrows = 0;
  for (size_t t = 0; t < tasks.size(); ++t) {
    for (const int32_t before : schedule.waits[t]) {
      events.push_back(Arrow("s", arrows, stream_of[before], times[before].finish));
      events.push_back(Arrow("f", arrows, stream_of[t], times[t].start));
      ++arrows;
    }
  }
  const Json trace = {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ns"}};
  return trace.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace turbolstm
