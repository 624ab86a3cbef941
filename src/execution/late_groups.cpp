#include "execution/late_groups.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace turbolstm {
namespace {

// What late groups write, so that whoever touches it comes behind them.
class LateBuffers {
 public:
  LateBuffers(const LoweredGraph& graph, std::span<const std::string> inputs)
      : graph_(graph), late_(graph.buffers.size(), false), touched_(graph.buffers.size(), false) {
    for (const std::string& name : inputs) {
      const auto input = std::ranges::find(graph.inputs, name, &NamedView::name);
      TL_CHECK(input != graph.inputs.end(),
               "[execution] the graph has no input '{}' that could come late", name);
      late_[static_cast<size_t>(input->view.buffer)] = true;
    }
  }

  // Groups have to be shown in their order.
  bool Add(const Group& group) {
    bool late = false;
    for (const Stage& stage : group.stages) {
      ForEachView(stage, [&](const View& view) { late |= IsMarked(late_, view); });
      // A later group must not overwrite what a late one goes on to read.
      for (const View& output : stage.outputs) late |= IsMarked(touched_, output);
    }
    if (!late) return false;
    for (const Stage& stage : group.stages) {
      ForEachView(stage, [&](const View& view) { Mark(&touched_, view); });
      for (const View& output : stage.outputs) Mark(&late_, output);
    }
    return true;
  }

 private:
  template <typename Visit>
  void ForEachView(const Stage& stage, Visit visit) const {
    for (const Operand& operand : stage.inputs) {
      visit(operand.view);
      visit(operand.init);
    }
    for (const View& output : stage.outputs) visit(output);
    visit(stage.bias);
    if (stage.weight >= 0) visit(graph_.weights[static_cast<size_t>(stage.weight)].matrix);
  }

  static bool IsMarked(const std::vector<bool>& marks, const View& view) {
    return view.buffer >= 0 && marks[static_cast<size_t>(view.buffer)];
  }
  static void Mark(std::vector<bool>* marks, const View& view) {
    if (view.buffer >= 0) (*marks)[static_cast<size_t>(view.buffer)] = true;
  }

  const LoweredGraph& graph_;
  std::vector<bool> late_, touched_;
};

}  // namespace

void PutLateGroupsLast(LoweredGraph* graph, std::span<const std::string> late_inputs) {
  LateBuffers buffers(*graph, late_inputs);
  std::vector<Group> early, late;
  for (Group& group : graph->groups) {
    const bool is_late = buffers.Add(group);
    (is_late ? late : early).push_back(std::move(group));
  }
  graph->first_late = early.size();
  graph->groups = std::move(early);
  std::ranges::move(late, std::back_inserter(graph->groups));
}

}  // namespace turbolstm
