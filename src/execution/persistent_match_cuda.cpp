#include "execution/persistent_match_cuda.h"

#include <algorithm>
#include <numeric>

#include "execution/typed_programs_cuda.h"

namespace turbolstm::cuda {
namespace {

bool Contains(const View& outer, const View& inner) {
  return outer.buffer == inner.buffer && outer.column <= inner.column &&
         inner.column + inner.width <= outer.column + outer.width;
}

class Matcher {
 public:
  Matcher(const LoweredGraph& graph, const Group& group) : graph_(graph), group_(group) {}

  std::optional<LoopMatch> Run() {
    if (!FindStages() || !FindX() || !FindProducts() || !OthersAreServed()) return std::nullopt;
    FillStep();
    return match_;
  }

 private:
  const Buffer& buffer(const View& view) const {
    return graph_.buffers[static_cast<size_t>(view.buffer)];
  }
  const View& result() const { return match_.product->outputs[0]; }

  bool FindStages() {
    if (graph_.precision == Precision::kFloat32 || !group_.is_loop()) return false;
    if (group_.stages.size() != 2) return false;
    for (const Stage& stage : group_.stages) {
      if (stage.domain != Domain::kStep) return false;
      if (stage.kind == Stage::Kind::kMatMul) match_.product = &stage;
      if (stage.kind == Stage::Kind::kPointwise) match_.program = &stage;
    }
    if (!match_.product || !match_.program) return false;
    const PackedWeight& weight = graph_.weights[static_cast<size_t>(match_.product->weight)];
    product_first_ = match_.product == &group_.stages[0];
    return weight.features.size() == 2 && buffer(result()).domain == Domain::kStep;
  }

  // The program computes all of x, and reads, of what it computes, an element's own past only.
  bool FindX() {
    match_.x = match_.product->inputs[0];
    if (product_first_ ? match_.x.delay != 1 : match_.x.delay != 0) return false;
    int64_t computed = 0;
    for (const View& output : match_.program->outputs) {
      if (buffer(output).domain != Domain::kStep) return false;
      if (Contains(match_.x.view, output)) computed += output.width;
      for (const Operand& operand : match_.program->inputs) {
        if (Overlaps(output, operand.view) && !(output == operand.view)) return false;
      }
    }
    for (const Operand& operand : match_.program->inputs) {
      const bool step = buffer(operand.view).domain == Domain::kStep;
      if (operand.delay > (step ? 1 : 0)) return false;
    }
    return computed == match_.x.view.width;
  }

  bool FindProducts() {
    const int64_t units = match_.program->outputs[0].width;
    for (size_t i = 0; i < match_.program->inputs.size(); ++i) {
      const Operand& operand = match_.program->inputs[i];
      if (!Overlaps(operand.view, result())) continue;
      const bool fits = Contains(result(), operand.view) && operand.view.width == units &&
                        (product_first_ ? operand.delay == 0 : IsNextStep(operand));
      if (!fits) return false;
      if (!product_first_) match_.x = XAsRead(operand);
      match_.step.products.push_back(
          {i, operand.view.column - result().column, match_.product->accumulate, false});
    }
    return !match_.step.products.empty();
  }

  // The result of the step before in the loop's direction, and zero where there is none.
  bool IsNextStep(const Operand& operand) const {
    return operand.delay == 1 && operand.adjoint && operand.direction == group_.direction &&
           operand.init.buffer < 0 && !match_.product->accumulate &&
           match_.product->bias.buffer < 0;
  }

  // Then x is read as the result is: the product of zeros is zero.
  Operand XAsRead(const Operand& of_result) const {
    Operand x = match_.product->inputs[0];
    x.delay = of_result.delay;
    x.direction = of_result.direction;
    x.adjoint = of_result.adjoint;
    return x;
  }

  // Sums that someone else reads must be in memory, unless the program puts something there.
  bool OthersAreServed() {
    for (const Group& group : graph_.groups) {
      for (const Stage& stage : group.stages) {
        for (const Operand& operand : stage.inputs) {
          if (&stage == match_.program || !Overlaps(operand.view, result())) continue;
          if (&group == &group_ || !Serve(&group < &group_, operand.view)) return false;
        }
      }
    }
    return std::all_of(graph_.outputs.begin(), graph_.outputs.end(), [&](const NamedView& output) {
      return !Overlaps(output.view, result()) || Serve(false, output.view);
    });
  }

  bool IsOverwritten(const View& view) const {
    int64_t overwritten = 0;
    for (const View& output : match_.program->outputs) {
      if (Contains(view, output)) overwritten += output.width;
      if (output == view || Contains(output, view)) return true;
    }
    return overwritten == view.width;
  }

  bool Serve(bool before, const View& view) {
    if (before || IsOverwritten(view)) return true;
    if (!product_first_) {
      match_.product_is_read = true;
      return buffer(match_.x.view).ring == 0 && !buffer(match_.x.view).local;
    }
    int64_t kept = 0;
    for (ProductInput& product : match_.step.products) {
      const View& slice = match_.program->inputs[product.input].view;
      if (!Overlaps(slice, view)) continue;
      if (!IsOverwritten(slice)) product.kept = true;
      kept += slice.width;
    }
    return kept >= view.width;
  }

  LoopRows RowsOf(const View& view) const {
    const Buffer& where = buffer(view);
    LoopRows rows;
    rows.period = where.local ? 1 : where.ring;
    if (where.domain == Domain::kBatch) rows.kind = RowKind::kBatch;
    if (where.domain == Domain::kStatic) rows.kind = RowKind::kShared;
    return rows;
  }

  LoopRows RowsOf(const Operand& operand) const {
    LoopRows rows = RowsOf(operand.view);
    rows.delay = operand.delay;
    rows.forward = operand.direction == Direction::kForward;
    rows.adjoint = operand.adjoint;
    rows.has_init = !operand.adjoint && operand.init.buffer >= 0;
    return rows;
  }

  // The output that the operand is, one step before; or -1.
  int64_t CarriedOutput(const Operand& operand) const {
    const auto& outputs = match_.program->outputs;
    const auto found = std::find(outputs.begin(), outputs.end(), operand.view);
    const bool own_past = operand.delay == 1 && operand.direction == match_.x.direction;
    return found == outputs.end() || !own_past ? -1 : found - outputs.begin();
  }

  // Where rows begin, in buffers that begin at a multiple of that themselves.
  int64_t AlignmentOf(const View& view) const {
    constexpr int64_t kChunkBytes = 16;
    if (view.buffer < 0) return kChunkBytes;
    const auto size = static_cast<int64_t>(SizeOf(buffer(view).dtype));
    return std::gcd(kChunkBytes, std::gcd(view.column * size, buffer(view).width * size));
  }

  int64_t AlignmentOfAll() const {
    int64_t least = AlignmentOf({});
    for (const View& output : match_.program->outputs) {
      least = std::min(least, AlignmentOf(output));
    }
    for (const View& kept : match_.kept) least = std::min(least, AlignmentOf(kept));
    for (const Operand& operand : match_.program->inputs) {
      least = std::min({least, AlignmentOf(operand.view), AlignmentOf(operand.init)});
    }
    return least;
  }

  void FillStep() {
    LoopStep& step = match_.step;
    const Stage& program = *match_.program;
    step.program.program = program.program;
    for (const Operand& operand : program.inputs) {
      step.program.inputs.push_back(buffer(operand.view).dtype);
      step.inputs.push_back(RowsOf(operand));
      step.carried.push_back(CarriedOutput(operand));
    }
    for (const View& output : program.outputs) {
      step.program.outputs.push_back(buffer(output).dtype);
      step.x_columns.push_back(
          Contains(match_.x.view, output) ? output.column - match_.x.view.column : -1);
      step.outputs.push_back(RowsOf(output));
    }
    for (const ProductInput& product : step.products) {
      if (!product.kept) continue;
      match_.kept.push_back(program.inputs[product.input].view);
      step.kept.push_back(buffer(match_.kept.back()).dtype);
      step.outputs.push_back(RowsOf(match_.kept.back()));
    }
    step.units = program.outputs[0].width;
    step.columns = result().width;
    step.inner = match_.x.view.width;
    step.x = RowsOf(match_.x);
    step.operand = OperandType(graph_.precision);
    step.in_pieces = graph_.precision == Precision::kBf16x6;
    step.alignment = AlignmentOfAll();
  }

  const LoweredGraph& graph_;
  const Group& group_;
  LoopMatch match_;
  bool product_first_ = false;
};

}  // namespace

std::optional<LoopMatch> MatchPersistentLoop(const LoweredGraph& graph, const Group& group) {
  return Matcher(graph, group).Run();
}

}  // namespace turbolstm::cuda
