#include "execution/zero_padding.h"

#include <algorithm>
#include <vector>

namespace turbolstm {
namespace {

// Which columns of each buffer are zero at padded rows, as stages run one after the other. In a
// loop the last stage of a step that writes a column decides.
class PaddedColumns {
 public:
  explicit PaddedColumns(const LoweredGraph& graph) : graph_(graph) {
    for (const Buffer& buffer : graph.buffers) {
      zero_.emplace_back(static_cast<size_t>(buffer.width), true);
    }
  }

  bool AreZero(const View& view) const {
    const auto begin = zero_[static_cast<size_t>(view.buffer)].begin() + view.column;
    return std::all_of(begin, begin + view.width, [](bool zero) { return zero; });
  }

  void Write(const Stage& stage) {
    for (const View& output : stage.outputs) {
      const bool zero = stage.kind != Stage::Kind::kMatMul || IsZeroProduct(stage, output);
      const auto begin = zero_[static_cast<size_t>(output.buffer)].begin() + output.column;
      std::fill(begin, begin + output.width, zero);
    }
  }

 private:
  bool IsZeroProduct(const Stage& stage, const View& output) const {
    const Operand& x = stage.inputs[0];
    const bool steps = x.view.buffer < 0 ||
                       graph_.buffers[static_cast<size_t>(x.view.buffer)].domain == Domain::kStep;
    return steps && stage.bias.buffer < 0 && x.delay == 0 &&
           (x.view.buffer < 0 || AreZero(x.view)) && (!stage.accumulate || AreZero(output));
  }

  const LoweredGraph& graph_;
  std::vector<std::vector<bool>> zero_;
};

}  // namespace

std::set<const Stage*> SumsWithZeroPadding(const LoweredGraph& graph) {
  std::set<const Stage*> sums;
  PaddedColumns columns(graph);
  ForEachStage(graph, [&](const Stage& stage) {
    if (stage.op == Op::kOuter && stage.inputs[0].view.buffer >= 0 &&
        columns.AreZero(stage.inputs[0].view)) {
      sums.insert(&stage);
    }
    columns.Write(stage);
  });
  return sums;
}

}  // namespace turbolstm
