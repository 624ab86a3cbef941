#include "execution/phased_match_cuda.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace turbolstm::cuda {
namespace {

class PhasedMatcher {
 public:
  PhasedMatcher(const LoweredGraph& graph, const Group& group) : graph_(graph), group_(group) {}

  std::optional<PhasedMatch> Run() {
    if (graph_.precision == Precision::kFloat32 || !group_.is_loop() || !FindUnits()) return {};
    for (const Stage& stage : group_.stages) {
      for (const View& output : stage.outputs) {
        for (const Slot& slot : SlotsOf(output)) written_.emplace(slot, -1);
      }
    }
    for (const Stage& stage : group_.stages) {
      if (!AddStage(stage)) return {};
    }
    if (match_.products.empty() || overwrites_) return {};
    Finish();
    return std::move(match_);
  }

 private:
  using Slot = std::pair<int32_t, int64_t>;  // buffer and column of a value's first unit

  const Buffer& buffer(const View& view) const {
    return graph_.buffers[static_cast<size_t>(view.buffer)];
  }
  PhasedStep& step() { return match_.step; }
  int NewValue() { return step().values++; }

  // The narrowest of all vectors; the others are as wide a whole number of times.
  bool FindUnits() {
    int64_t& units = step().units;
    const auto visit = [&](int64_t width) {
      if (width > 1 && (units == 0 || width < units)) units = width;
    };
    for (const Stage& stage : group_.stages) {
      for (const View& output : stage.outputs) visit(output.width);
    }
    return units > 1 && std::all_of(group_.stages.begin(), group_.stages.end(),
                                    [&](const Stage& stage) { return HasWholeVectors(stage); });
  }

  bool HasWholeVectors(const Stage& stage) const {
    if (stage.domain != Domain::kStep) return false;
    const auto whole = [&](const View& view) {
      if (view.buffer < 0) return true;
      if (view.width == 1) return buffer(view).width == 1;
      return view.width % match_.step.units == 0 && view.column % match_.step.units == 0;
    };
    return std::all_of(stage.outputs.begin(), stage.outputs.end(),
                       [&](const View& view) {
                         return whole(view) && buffer(view).domain == Domain::kStep;
                       }) &&
           std::all_of(stage.inputs.begin(), stage.inputs.end(), [&](const Operand& operand) {
             return operand.view.buffer >= 0 && operand.delay <= 1 && whole(operand.view);
           });
  }

  int64_t Parts(int64_t width) const { return width == 1 ? 1 : width / match_.step.units; }

  std::vector<Slot> SlotsOf(const View& view) const {
    std::vector<Slot> slots;
    for (int64_t i = 0; i < Parts(view.width); ++i) {
      slots.emplace_back(view.buffer, view.column + i * match_.step.units);
    }
    return slots;
  }

  LoopRows RowsOf(const View& view) const {
    const Buffer& where = buffer(view);
    LoopRows rows;
    rows.period = where.local ? 1 : where.ring;
    if (where.domain == Domain::kBatch) rows.kind = RowKind::kBatch;
    if (where.domain == Domain::kStatic) rows.kind = RowKind::kShared;
    return rows;
  }

  // A part of an operand, where it lies in memory.
  PhasedPlace PlaceOf(const Operand& operand, int64_t part) {
    PhasedPlace place;
    place.operand = InputOf(operand);
    place.column = part * match_.step.units;
    place.per_unit = operand.view.width > 1;
    place.dtype = buffer(operand.view).dtype;
    place.rows = RowsOf(operand.view);
    place.rows.delay = operand.delay;
    place.rows.forward = operand.direction == Direction::kForward;
    place.rows.adjoint = operand.adjoint;
    place.rows.has_init = !operand.adjoint && operand.init.buffer >= 0;
    return place;
  }

  size_t InputOf(const Operand& operand) {
    const auto same = [&](const Operand& other) {
      return other.view == operand.view && other.delay == operand.delay &&
             other.direction == operand.direction && other.adjoint == operand.adjoint &&
             other.init == operand.init && other.init_stride == operand.init_stride;
    };
    const auto found = std::find_if(match_.inputs.begin(), match_.inputs.end(), same);
    if (found != match_.inputs.end()) return static_cast<size_t>(found - match_.inputs.begin());
    match_.inputs.push_back(operand);
    return match_.inputs.size() - 1;
  }

  static Operand AsItIs(const View& view) {
    Operand operand;
    operand.view = view;
    return operand;
  }

  // The value that a part of an operand is; a new one where it comes from memory or from the step
  // before.
  int ValueOf(const Operand& operand, int64_t part) {
    const Slot slot{operand.view.buffer, operand.view.column + part * match_.step.units};
    const auto written = written_.find(slot);
    if (operand.delay == 0 && written != written_.end() && written->second >= 0) {
      return written->second;
    }
    const PhasedPlace place = PlaceOf(operand, part);
    // Others may read it from memory after its first unit has overwritten it.
    if (!place.per_unit && operand.delay == 0 && written != written_.end()) overwrites_ = true;
    const auto [known, added] = read_.try_emplace({place.operand, part}, -1);
    if (!added) return known->second;
    const int value = known->second = NewValue();
    const bool carried = operand.delay == 1 && written != written_.end();
    if (!carried) {
      step().loads.push_back({value, place});
    } else {
      step().carried.push_back({value, -1, place});
      carried_slots_.push_back(slot);
    }
    return value;
  }

  // What a loop carries itself is of the step before in its own direction.
  bool CanRead(const Operand& operand) const {
    if (operand.delay == 0) return true;
    const bool own = std::any_of(written_.begin(), written_.end(), [&](const auto& written) {
      return written.first.first == operand.view.buffer;
    });
    return !own || operand.direction == group_.direction;
  }

  bool AddStage(const Stage& stage) {
    if (!std::all_of(stage.inputs.begin(), stage.inputs.end(),
                     [&](const Operand& operand) { return CanRead(operand); })) {
      return false;
    }
    switch (stage.kind) {
      case Stage::Kind::kPointwise:
        return AddProgram(stage);
      case Stage::Kind::kMatMul:
        return AddProduct(stage);
      case Stage::Kind::kNode:
        break;
    }
    return stage.op == Op::kRowSum && AddSum(stage);
  }

  void Write(const View& view, int64_t part, int value) {
    written_[{view.buffer, view.column + part * match_.step.units}] = value;
  }

  bool AddProgram(const Stage& stage) {
    const size_t number = step().programs.size();
    TypedProgram typed{stage.program, {}, {}};
    for (const Operand& operand : stage.inputs) typed.inputs.push_back(buffer(operand.view).dtype);
    for (const View& output : stage.outputs) typed.outputs.push_back(buffer(output).dtype);
    step().programs.push_back(std::move(typed));
    const int64_t width = stage.outputs[0].width;
    for (int64_t part = 0; part < Parts(width); ++part) {
      PhasedProgram program;
      program.program = number;
      for (const Operand& operand : stage.inputs) {
        const int64_t parts = Parts(operand.view.width);
        if (operand.view.width > 1 && parts != Parts(width)) return false;
        program.inputs.push_back(ValueOf(operand, parts == 1 ? 0 : part));
      }
      for (size_t i = 0; i < stage.outputs.size(); ++i) program.outputs.push_back(NewValue());
      step().phases.emplace_back(std::move(program));
    }
    // A part may be read by another part's program only as it was before.
    const size_t first = step().phases.size() - static_cast<size_t>(Parts(width));
    for (int64_t part = 0; part < Parts(width); ++part) {
      const auto& program =
          std::get<PhasedProgram>(step().phases[first + static_cast<size_t>(part)]);
      for (size_t i = 0; i < stage.outputs.size(); ++i) {
        Write(stage.outputs[i], part, program.outputs[i]);
      }
    }
    return true;
  }

  bool AddProduct(const Stage& stage) {
    const PackedWeight& weight = graph_.weights[static_cast<size_t>(stage.weight)];
    const Operand& x = stage.inputs[0];
    const View& y = stage.outputs[0];
    if (weight.features.size() != 2 || buffer(x.view).domain != Domain::kStep) return false;
    if (x.view.width == 1 || y.width == 1) return false;
    PhasedProduct product;
    for (int64_t part = 0; part < Parts(x.view.width); ++part) {
      product.x.push_back(ValueOf(x, part));
    }
    for (int64_t part = 0; part < Parts(y.width); ++part) {
      std::vector<int> added;
      if (stage.accumulate) added.push_back(ValueOf(AsItIs(y), part));
      if (stage.bias.buffer >= 0) added.push_back(ValueOf(AsItIs(stage.bias), part));
      product.added.push_back(std::move(added));
      product.results.push_back(NewValue());
    }
    for (int64_t part = 0; part < Parts(y.width); ++part) {
      Write(y, part, product.results[static_cast<size_t>(part)]);
    }
    step().phases.emplace_back(std::move(product));
    match_.products.push_back(&stage);
    return true;
  }

  bool AddSum(const Stage& stage) {
    const Operand& x = stage.inputs[0];
    if (x.view.width == 1 || stage.outputs[0].width != 1) return false;
    PhasedSum sum;
    for (int64_t part = 0; part < Parts(x.view.width); ++part) sum.of.push_back(ValueOf(x, part));
    sum.result = NewValue();
    Write(stage.outputs[0], 0, sum.result);
    step().phases.emplace_back(std::move(sum));
    return true;
  }

  // What is held for a few steps only is read by the loop alone.
  void Finish() {
    for (size_t k = 0; k < step().carried.size(); ++k) {
      step().carried[k].next = written_.at(carried_slots_[k]);
    }
    for (const auto& [slot, value] : written_) {
      const Buffer& where = graph_.buffers[static_cast<size_t>(slot.first)];
      if (where.local || where.ring > 0) continue;
      const int64_t width = where.width == 1 ? 1 : match_.step.units;
      const View view{slot.first, slot.second, width};
      PhasedStore store;
      store.value = value;
      store.to.operand = match_.outputs.size();
      store.to.per_unit = width > 1;
      store.to.dtype = where.dtype;
      store.to.rows = RowsOf(view);
      step().stores.push_back(store);
      match_.outputs.push_back(view);
    }
    step().inputs = match_.inputs.size();
    step().outputs = match_.outputs.size();
    step().operand = OperandType(graph_.precision);
    step().in_pieces = graph_.precision == Precision::kBf16x6;
  }

  const LoweredGraph& graph_;
  const Group& group_;
  PhasedMatch match_;
  std::map<Slot, int> written_;  // what the loop computes, and its value so far; -1: none yet
  std::map<std::pair<size_t, int64_t>, int> read_;  // by input and part
  std::vector<Slot> carried_slots_;
  bool overwrites_ = false;  // a value of a row that it reads
};

}  // namespace

std::optional<PhasedMatch> MatchPhasedLoop(const LoweredGraph& graph, const Group& group) {
  return PhasedMatcher(graph, group).Run();
}

}  // namespace turbolstm::cuda
