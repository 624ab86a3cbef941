#include "harness/activity.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace turbolstm::bench {

Idleness IdlenessOf(const std::vector<Activity>& activities) {
  constexpr double kMillisecond = 1e6;
  Idleness idleness;
  const Activity* last = nullptr;  // of those so far the one that ends last
  int64_t first = 0;
  for (const Activity& now : activities) {
    if (now.kind == Activity::Kind::kWait) continue;
    if (!last) {
      first = now.start;
    } else if (now.start > last->end) {
      const bool within = now.replayed && last->replayed && now.launch == last->launch;
      (within ? idleness.within_ms : idleness.between_ms) +=
          static_cast<double>(now.start - last->end) / kMillisecond;
    }
    if (!last || now.end > last->end) last = &now;
  }
  if (!last) return idleness;
  idleness.span_ms = static_cast<double>(last->end - first) / kMillisecond;
  idleness.busy_ms = idleness.span_ms - idleness.within_ms - idleness.between_ms;
  return idleness;
}

void WriteChromeTrace(const std::vector<Activity>& activities, const std::filesystem::path& path) {
  constexpr double kMicrosecond = 1e3;
  nlohmann::json events = nlohmann::json::array();
  const int64_t begin = activities.empty() ? 0 : activities.front().start;
  for (const Activity& a : activities) {
    const bool host = a.kind == Activity::Kind::kWait;
    events.push_back({{"name", a.name},
                      {"ph", "X"},
                      {"pid", host ? "host" : "device"},
                      {"tid", a.stream},
                      {"ts", static_cast<double>(a.start - begin) / kMicrosecond},
                      {"dur", static_cast<double>(a.end - a.start) / kMicrosecond},
                      {"args", {{"launch", a.launch}, {"replayed", a.replayed}}}});
  }
  std::ofstream file(path);
  file << nlohmann::json{{"traceEvents", events}} << '\n';
  file.close();
  TL_CHECK(file, "[trace] {} cannot be written", path.string());
}

}  // namespace turbolstm::bench
