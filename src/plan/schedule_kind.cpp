#include "plan/schedule_kind.h"

#include "base/error.h"

namespace turbolstm {

std::string_view Name(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kSequential:
      return "sequential";
    case ScheduleKind::kWholeWindow:
      return "whole-window";
    case ScheduleKind::kWavefront:
      return "wavefront";
    case ScheduleKind::kCellWavefront:
      return "cell-wavefront";
    case ScheduleKind::kTurboLstm:
      return "turbolstm";
    case ScheduleKind::kAuto:
      return "auto";
  }
  return "?";
}

ScheduleKind ScheduleNamed(std::string_view name) {
  for (const ScheduleKind kind : kScheduleKinds) {
    if (Name(kind) == name) return kind;
  }
  Fail("[plan] there is no schedule '{}'; there are {}", name, ScheduleNames());
}

std::string ScheduleNames() {
  std::string names;
  for (const ScheduleKind kind : kScheduleKinds) {
    if (!names.empty()) names += ", ";
    names += Name(kind);
  }
  return names;
}

}  // namespace turbolstm
