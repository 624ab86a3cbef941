#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/lowered.h"
#include "plan/plan.h"
#include "runtime/task_time.h"

namespace turbolstm {

// What a task is for, as far as it matters to who looks at a plan.
enum class TaskKind : uint8_t {
  kLoop,       // steps of a loop over time: the serial part
  kProduct,    // products over all steps of a block: of inputs, and of their gradients
  kSum,        // sums over rows: gradients of weights
  kPointwise,  // the rest of the network
  kPacking,    // weights brought into the layout that products read
  kUpdate,     // an optimiser's changes of parameters
};
inline constexpr std::array kTaskKinds{TaskKind::kLoop,      TaskKind::kProduct, TaskKind::kSum,
                                       TaskKind::kPointwise, TaskKind::kPacking, TaskKind::kUpdate};
// "loops", "products", "sums", "pointwise", "packing", "updates".
std::string_view Name(TaskKind kind);
TaskKind KindOfTask(const LoweredGraph& graph, const Work& work);

// Of all tasks of a kind.
struct KindTotals {
  int tasks = 0;
  double predicted = 0;     // seconds, by the cost model
  double taken = 0;         // by the times given
  double beside_loops = 0;  // of these, while a loop ran on another stream
  double critical = 0;      // predicted, of the critical path
};

// What a run of a plan looked like, or is expected to.
struct Timeline {
  double seconds = 0;
  std::vector<double> busy;  // of each stream
  std::array<KindTotals, kTaskKinds.size()> kinds;
  double all_busy = 0;  // seconds in which no stream waited

  const KindTotals& of(TaskKind kind) const { return kinds[static_cast<size_t>(kind)]; }
};

// times: of each task, the estimate's or measured ones.
Timeline TimelineOf(const LoweredGraph& graph, const Plan& plan, std::span<const TaskTime> times);

// The timeline as a picture: a lane a stream, a hue a kind, a shade a group, which a tooltip names;
// with a legend that says what each kind took.
std::string PrintSvg(const LoweredGraph& graph, const Plan& plan, std::span<const TaskTime> times,
                     std::string_view title);

}  // namespace turbolstm
