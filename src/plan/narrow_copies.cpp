#include "plan/narrow_copies.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "plan/fusion.h"

namespace turbolstm {
namespace {

bool Contains(const View& outer, const View& inner) {
  return outer.buffer == inner.buffer && outer.column <= inner.column &&
         inner.column + inner.width <= outer.column + outer.width;
}

// Where the last stage that writes to some columns stands.
struct Writer {
  int64_t group = -1;  // -1: an input
  size_t stage = 0;
};

class NarrowCopies {
 public:
  explicit NarrowCopies(LoweredGraph* graph)
      : graph_(*graph), narrow_(OperandType(graph->precision)) {}

  void Run() {
    if (narrow_ == DType::kFloat32) return;
    Collect();
    for (auto& [view, copy] : copies_) MakeCopy(view, &copy);
    Redirect();
    for (const auto& [view, copy] : copies_) KeepStateBriefly(ViewOf(view), copy);
    InsertGroups();
  }

 private:
  using Key = std::tuple<int32_t, int64_t, int64_t>;  // buffer, column, width

  static Key KeyOf(const View& view) { return {view.buffer, view.column, view.width}; }
  static View ViewOf(const Key& key) {
    return {std::get<0>(key), std::get<1>(key), std::get<2>(key)};
  }

  const Buffer& buffer(const View& view) const {
    return graph_.buffers[static_cast<size_t>(view.buffer)];
  }

  const Buffer& buffer_at(size_t id) const { return graph_.buffers[id]; }

  static bool IsProduct(const Stage& stage) {
    return stage.domain != Domain::kStatic &&
           (stage.kind == Stage::Kind::kMatMul || stage.op == Op::kOuter);
  }

  template <typename Visit>
  void ForEachProductOperand(Visit visit) {
    for (Group& group : graph_.groups) {
      for (Stage& stage : group.stages) {
        if (!IsProduct(stage)) continue;
        for (Operand& operand : stage.inputs) visit(&operand);
      }
    }
  }

  void Note(const View& view) {
    if (view.buffer < 0 || buffer(view).dtype == narrow_) return;
    copies_.try_emplace(KeyOf(view), View{});
  }

  // The rows of initial values are read at several columns: all of the buffer is copied.
  View WholeOf(const View& view) const { return {view.buffer, 0, buffer(view).width}; }

  void Collect() {
    ForEachProductOperand([&](Operand* operand) {
      Note(operand->view);
      if (operand->init.buffer >= 0) Note(WholeOf(operand->init));
    });
    for (const NamedView& output : graph_.outputs) {
      if (IsNarrowOutside(output)) Note(output.view);
    }
    CollectStates();
  }

  bool IsNarrowOutside(const NamedView& output) const {
    return graph_.boundary == BoundaryType::kOperand && output.domain == Domain::kStep &&
           output.view.width > 1;
  }

  void MakeCopy(const Key& key, View* copy) {
    const View view = ViewOf(key);
    Buffer made = buffer(view);
    made.name += " narrow";
    made.width = view.width;
    made.dtype = narrow_;
    made.source = BufferSource::kComputed;
    *copy = {static_cast<int32_t>(graph_.buffers.size()), 0, view.width};
    graph_.buffers.push_back(std::move(made));
    if (!MirrorPrograms(view, *copy)) CopyBehindWriter(view, *copy);
  }

  // Whether programs alone write the view, each a part of it; they then write the copy too.
  bool MirrorPrograms(const View& view, const View& copy) {
    int64_t mirrored = 0;
    if (buffer(view).source != BufferSource::kComputed) return false;
    for (const Group& group : graph_.groups) {
      for (const Stage& stage : group.stages) {
        for (const View& output : stage.outputs) {
          if (!Overlaps(output, view)) continue;
          if (stage.kind != Stage::Kind::kPointwise || !Contains(view, output)) return false;
          mirrored += output.width;
        }
      }
    }
    // Columns written twice, as by what lies in place of its operand, hold two values in turn.
    if (mirrored != view.width) return false;
    for (Group& group : graph_.groups) {
      for (Stage& stage : group.stages) {
        const size_t outputs = stage.outputs.size();
        for (size_t i = 0; i < outputs; ++i) {
          const View output = stage.outputs[i];
          if (!Overlaps(output, view)) continue;
          stage.program.outputs.push_back(stage.program.outputs[i]);
          stage.outputs.push_back({copy.buffer, output.column - view.column, output.width});
          stage.kernel.reset();
        }
      }
    }
    return true;
  }

  Writer LastWriter(const View& view) const {
    Writer last;
    for (size_t g = 0; g < graph_.groups.size(); ++g) {
      const std::vector<Stage>& stages = graph_.groups[g].stages;
      for (size_t s = 0; s < stages.size(); ++s) {
        if (Writes(stages[s], view)) last = {static_cast<int64_t>(g), s};
      }
    }
    return last;
  }

  void CopyBehindWriter(const View& view, const View& copy) {
    Operand from;
    from.view = view;
    const Domain domain = buffer(view).domain;
    Stage stage = CopyStage(from, copy, domain);
    stage.name = buffer(copy).name;
    const Writer writer = LastWriter(view);
    if (writer.group >= 0 && graph_.groups[static_cast<size_t>(writer.group)].is_loop()) {
      std::vector<Stage>& stages = graph_.groups[static_cast<size_t>(writer.group)].stages;
      stages.insert(stages.begin() + static_cast<std::ptrdiff_t>(writer.stage) + 1,
                    std::move(stage));
      return;
    }
    Group group;
    group.name = stage.name;
    group.kind = domain == Domain::kStatic ? RegionKind::kHoisted : RegionKind::kTimeParallel;
    group.domain = domain;
    group.stages.push_back(std::move(stage));
    new_groups_.emplace(writer.group, std::move(group));
  }

  void Redirect() {
    ForEachProductOperand([&](Operand* operand) {
      const auto copy = copies_.find(KeyOf(operand->view));
      if (operand->view.buffer >= 0 && copy != copies_.end()) operand->view = copy->second;
      if (operand->init.buffer < 0) return;
      const auto init = copies_.find(KeyOf(WholeOf(operand->init)));
      if (init != copies_.end()) operand->init.buffer = init->second.buffer;
    });
    for (NamedView& output : graph_.outputs) {
      const auto copy = copies_.find(KeyOf(output.view));
      if (IsNarrowOutside(output) && copy != copies_.end()) output.view = copy->second;
    }
  }

  // How the readers of a state that a loop carries look at it, if all but the loop itself can read
  // a copy of it.
  struct StateReaders {
    int32_t delay = 0;     // the farthest that the loop looks back
    bool adjoint = false;  // it is a gradient
    std::vector<Operand*> others;
  };

  std::optional<StateReaders> ReadersOfState(const View& view) {
    const Buffer& state = buffer(view);
    if (state.domain != Domain::kStep || state.source != BufferSource::kComputed || state.local ||
        state.ring > 0 || view.width != state.width) {
      return std::nullopt;
    }
    const int64_t own = LastWriter(view).group;
    if (own < 0 || !graph_.groups[static_cast<size_t>(own)].is_loop()) return std::nullopt;
    StateReaders readers;
    for (size_t g = 0; g < graph_.groups.size(); ++g) {
      for (Stage& stage : graph_.groups[g].stages) {
        const bool inside = static_cast<int64_t>(g) == own;
        if (stage.bias.buffer == view.buffer || (!inside && Writes(stage, view))) {
          return std::nullopt;
        }
        for (Operand& operand : stage.inputs) {
          if (operand.init.buffer == view.buffer) return std::nullopt;
          if (operand.view.buffer != view.buffer) continue;
          if (!inside && !MayReadCopy(stage, operand)) return std::nullopt;
          readers.delay = inside ? std::max(readers.delay, operand.delay) : readers.delay;
          readers.adjoint |= inside && operand.adjoint;
          if (!inside) readers.others.push_back(&operand);
        }
      }
    }
    const bool is_output =
        std::any_of(graph_.outputs.begin(), graph_.outputs.end(),
                    [&](const NamedView& output) { return output.view.buffer == view.buffer; });
    if (is_output) return std::nullopt;
    return readers;
  }

  // A state that a loop carries in fp32 need be there for a few steps only, when all others can
  // read the copy.
  void KeepStateBriefly(const View& view, const View& copy) {
    const std::optional<StateReaders> readers = ReadersOfState(view);
    if (!readers) return;
    for (Operand* operand : readers->others) operand->view.buffer = copy.buffer;
    graph_.buffers[static_cast<size_t>(view.buffer)].ring = readers->delay + 1;
  }

  // States that no product reads, as LSTM's c: what the backward pass reads of them is kept in 16
  // bits, as the gates are. Last states are not: whoever goes on from them does so in fp32. Nor are
  // gradients, which only those of initial states read.
  void CollectStates() {
    for (size_t id = 0; id < graph_.buffers.size(); ++id) {
      const View whole{static_cast<int32_t>(id), 0, buffer_at(id).width};
      if (buffer_at(id).dtype == narrow_ || whole.width <= 1 || IsReadAsFinal(whole)) continue;
      const std::optional<StateReaders> readers = ReadersOfState(whole);
      if (readers && readers->delay > 0 && !readers->adjoint && !readers->others.empty())
        Note(whole);
    }
  }

  bool IsReadAsFinal(const View& view) const {
    bool found = false;
    ForEachStage(graph_, [&](const Stage& stage) {
      found |= stage.op == Op::kFinal && !stage.inputs.empty() &&
               stage.inputs[0].view.buffer == view.buffer;
    });
    return found;
  }

  static bool Writes(const Stage& stage, const View& view) {
    return std::any_of(stage.outputs.begin(), stage.outputs.end(),
                       [&](const View& output) { return Overlaps(output, view); });
  }

  // What decides which way gradients flow is compared in fp32, as it was computed; what begins with
  // an fp32 value is fp32 itself.
  static bool MayReadCopy(const Stage& stage, const Operand& operand) {
    if (operand.init.buffer >= 0 || stage.op == Op::kFirstMaxMask) return false;
    return std::none_of(stage.program.code.begin(), stage.program.code.end(),
                        [](const PointwiseInstruction& step) {
                          return step.op == PointwiseOp::kMax || step.op == PointwiseOp::kMin ||
                                 step.op == PointwiseOp::kGreater;
                        });
  }

  void InsertGroups() {
    std::vector<Group> groups;
    for (int64_t g = -1; g < static_cast<int64_t>(graph_.groups.size()); ++g) {
      if (g >= 0) groups.push_back(std::move(graph_.groups[static_cast<size_t>(g)]));
      const auto [begin, end] = new_groups_.equal_range(g);
      for (auto it = begin; it != end; ++it) groups.push_back(std::move(it->second));
    }
    graph_.groups = std::move(groups);
  }

  LoweredGraph& graph_;
  DType narrow_;
  std::map<Key, View> copies_;
  std::multimap<int64_t, Group> new_groups_;  // by the group that they stand behind
};

}  // namespace

void AddNarrowCopies(LoweredGraph* graph) {
  NarrowCopies(graph).Run();
}

}  // namespace turbolstm
