#include "plan/work_kind.h"

namespace turbolstm {

WorkKind KindOfWork(const Group& group) {
  if (group.is_loop()) return WorkKind::kLoop;
  const Stage& stage = group.stages.front();
  if (stage.kind == Stage::Kind::kNode && !Traits(stage.op).per_step) {
    const bool sum = stage.op == Op::kOuter || stage.op == Op::kSumRows;
    return sum ? WorkKind::kReduction : WorkKind::kWhole;
  }
  switch (group.domain) {
    case Domain::kStep:
      return WorkKind::kSteps;
    case Domain::kBatch:
      return WorkKind::kRows;
    case Domain::kStatic:
      break;
  }
  return WorkKind::kStatic;
}

bool IsBlockwise(const Group& group) {
  const WorkKind kind = KindOfWork(group);
  return kind == WorkKind::kLoop || kind == WorkKind::kSteps ||
         (kind == WorkKind::kReduction && group.domain == Domain::kStep);
}

}  // namespace turbolstm
