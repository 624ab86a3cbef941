// Sums of rows by their entry of a table, as the gradients of embeddings: sorting waits for nothing
// but the indices, so it is done on a queue of its own from the beginning of a run on.

#include "execution/stage_enqueuer_cuda.h"

namespace turbolstm::cuda {

void StageEnqueuer::FindOrderedAhead() {
  ForEachStage(graph_, [&](const Stage& stage) {
    if (ordered_ahead_ || stage.op != Op::kScatterAdd) return;
    const Operand& index = stage.inputs[0];
    if (index.delay == 0 && buffer(index.view).source == BufferSource::kInput) {
      ordered_ahead_ = &stage;
    }
  });
}

RowRange StageEnqueuer::RowsOf(const Stage& stage) const {
  return stage.domain == Domain::kStep ? AllSteps() : RowRange{};
}

int64_t StageEnqueuer::OrderBytes(const Stage& stage) const {
  return ScatterAddScratchBytes(RowsOf(stage).steps * shape_.batch, stage.attributes.size);
}

void StageEnqueuer::OrderAhead() {
  is_ordering_ = ordered_ahead_ != nullptr && OrderBytes(*ordered_ahead_) > 0;
  if (!is_ordering_) return;
  ahead_.Fork(context_.stream);
  OperatorContext context = context_;
  context.stream = ahead_.get();
  const OperatorCall call = CallOf(*ordered_ahead_);
  OrderRows(call.inputs[0], RowsOf(*ordered_ahead_), call.attributes.size, order_.data(),
            call.stage, context);
}

void StageEnqueuer::EnqueueScatter(const Stage& stage, const OperatorCall& call) {
  auto* const table = reinterpret_cast<float*>(Address(stage.outputs[0], 0));
  void* const scratch = (&stage == ordered_ahead_ ? order_ : scratch_[room_]).data();
  if (&stage == ordered_ahead_ && is_ordering_) {
    ahead_.Join(context_.stream);
    return AddOrderedRows(call.inputs[1], RowsOf(stage), call.attributes.size, table, scratch,
                          context_);
  }
  ScatterAdd(call.inputs[0], call.inputs[1], RowsOf(stage), call.attributes.size, table, scratch,
             call.stage, context_);
}

}  // namespace turbolstm::cuda
