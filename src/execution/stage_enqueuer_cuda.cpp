#include "execution/stage_enqueuer_cuda.h"

#include <algorithm>
#include <limits>

#include "backend/cuda/check_cuda.h"
#include "base/error.h"
#include "execution/split_choice.h"
#include "execution/turns.h"
#include "execution/typed_programs_cuda.h"
#include "execution/zero_padding.h"
#include "plan/partition.h"

namespace turbolstm::cuda {

StageEnqueuer::StageEnqueuer(const LoweredGraph& graph, const DeviceMemory& memory, SplitRule split)
    : graph_(graph),
      memory_(memory),
      narrow_(OperandType(graph.precision)),
      split_rule_(split),
      turns_(Turns(graph)),
      sums_with_zero_padding_(SumsWithZeroPadding(graph)) {
  const std::vector<PointwiseKernel> compiled = CompilePointwise(TypedProgramsOf(graph_));
  auto next = compiled.begin();
  for (const Group& group : graph_.groups) {
    one_kernel_.push_back(RunsInOneKernel(graph_, group));
    matches_.push_back(MatchPersistentLoop(graph_, group));
    kernels_.emplace_back(group.stages.size());
    for (size_t i = 0; i < group.stages.size(); ++i) {
      if (group.stages[i].kind == Stage::Kind::kPointwise) kernels_.back()[i] = *next++;
    }
  }
  FindZeroPadded();
  PlaceSplitWeights();
}

bool StageEnqueuer::Resize(const DeviceShape& shape, const Stream& stream) {
  shape_ = shape;
  Room room;
  for (const Group& group : graph_.groups) {
    for (const Stage& stage : group.stages) AddRoom(stage, group.is_loop(), &room);
  }
  bool moved = MakeLoops(stream);
  const auto grow = [&](DeviceBuffer* buffer, int64_t bytes, std::string_view what) {
    const bool grown = GrowBuffer(buffer, bytes, what, stream);
    moved |= grown;
    return grown;
  };
  for (size_t i : {0, 1}) {
    grow(&gathered_[i], room.gathered[i], "rows gathered for products");
    grow(&split_[i], room.split[i], "pieces of what products multiply");
  }
  grow(&split_weights_, room.split_weights, "pieces of weights");
  grow(&scratch_, room.scratch, "sums over rows");
  if (grow(&zeros_, room.zeros, "rows of zeros")) zeros_.Clear();
  return moved;
}

void StageEnqueuer::AddRoom(const Stage& stage, bool one_step, Room* room) const {
  const int64_t count = stage.domain == Domain::kStep && !one_step ? rows() : shape_.batch;
  for (size_t i = 0; i < stage.inputs.size() && IsProduct(stage); ++i) {
    const Operand& operand = stage.inputs[i];
    const int64_t bytes = operand.view.width * int64_t{sizeof(float)};
    int64_t& gathered = room->gathered[i];
    if (MustGather(stage, i, one_step)) gathered = std::max(gathered, count * bytes);
    if (operand.delay == 0) continue;
    gathered = std::max(gathered, shape_.batch * bytes);  // a learned initial value
    room->zeros = std::max(room->zeros, shape_.batch * bytes);
  }
  AddSplitRoom(stage, count, room);
  if (stage.op == Op::kSumRows) {
    room->scratch = std::max(room->scratch, SumRowsScratchBytes(stage.inputs[0].view.width));
  }
  if (stage.op == Op::kScatterAdd) {
    const int64_t all = stage.domain == Domain::kStep ? rows() : shape_.batch;
    room->scratch = std::max(room->scratch, ScatterAddScratchBytes(all, stage.attributes.size));
  }
}

LoopTile StageEnqueuer::TileFor(size_t group, int64_t processors) const {
  constexpr int64_t kMostRows = std::numeric_limits<int32_t>::max();  // counted in 32 bits
  if (!matches_[group] || shape_.steps < 2 || rows() > kMostRows) return {};
  const LoopStep& step = matches_[group]->step;
  const LoopTile tile = TileOnThisDevice(step, shape_.batch, processors);
  const bool stepwise =
      tile.parts == 0 || StepwiseCost(step, shape_.batch) < PersistentCost(step, tile);
  return stepwise ? LoopTile{} : tile;
}

bool StageEnqueuer::RunBeside(size_t first, int64_t processors) const {
  if (first + 1 >= turns_.size() || turns_[first] != turns_[first + 1]) return false;
  double after = 0, beside = 0;
  for (const size_t g : {first, first + 1}) {
    const LoopTile whole = TileFor(g, processors), half = TileFor(g, processors / 2);
    if (whole.parts == 0 || half.parts == 0) return false;
    after += PersistentCost(matches_[g]->step, whole);
    beside = std::max(beside, PersistentCost(matches_[g]->step, half));
  }
  return beside < after;
}

// Kernels of loops depend on the number of sequences.
bool StageEnqueuer::MakeLoops(const Stream& stream) {
  loops_.assign(graph_.groups.size(), std::nullopt);
  beside_.assign(graph_.groups.size(), false);
  const int64_t processors = LoopProcessors();
  int64_t bytes = 0;
  for (size_t g = 0; g < loops_.size(); ++g) {
    beside_[g] = RunBeside(g, processors);
    const bool second = g > 0 && beside_[g - 1];
    const LoopTile tile = TileFor(g, beside_[g] || second ? processors / 2 : processors);
    if (tile.parts == 0) continue;
    loops_[g].emplace(matches_[g]->step, tile);
    bytes =
        std::max(bytes, tile.exchange_bytes + (second ? loops_[g - 1]->tile().exchange_bytes : 0));
  }
  return GrowBuffer(&exchange_, bytes, "what blocks hand to each other", stream);
}

int64_t StageEnqueuer::bytes() const {
  return gemm_.workspace_bytes() +
         static_cast<int64_t>(exchange_.size() + gathered_[0].size() + gathered_[1].size() +
                              split_[0].size() + split_[1].size() + split_weights_.size() +
                              zeros_.size() + scratch_.size());
}

void StageEnqueuer::Enqueue(const OperatorContext& context, const float* row_counts) {
  context_ = context;
  row_counts_ = row_counts;
  persistent_loops_ = 0;
  narrow_made_.assign(memory_.narrow_statics().size(), false);
  split_made_.assign(split_places_.size(), false);
  held_[0] = held_[1] = {};
  for (size_t g = 0; g < graph_.groups.size(); ++g) {
    if (one_kernel_[g]) {
      EnqueueTimeLoop(graph_.groups[g], kernels_[g][0]);
    } else if (beside_[g]) {
      EnqueueBeside(g);
    } else if (g > 0 && beside_[g - 1]) {
      // Runs already.
    } else if (loops_[g]) {
      EnqueuePersistent(g, exchange_.data());
      EnqueueProductBehind(*matches_[g]);
    } else {
      EnqueueGroup(graph_.groups[g], kernels_[g]);
    }
    for (const Stage& stage : graph_.groups[g].stages) ForgetSplits(stage);
  }
}

void StageEnqueuer::EnqueueGroup(const Group& group, const std::vector<PointwiseKernel>& kernels) {
  const RowRange all{0, shape_.steps, shape_.ragged};
  switch (KindOfWork(group)) {
    case WorkKind::kLoop:
      return EnqueueLoop(group, kernels);
    case WorkKind::kSteps:
      for (size_t i = 0; i < kernels.size(); ++i) {
        EnqueueRows(group.stages[i], kernels[i], all, false);
      }
      return;
    case WorkKind::kRows:
      for (size_t i = 0; i < kernels.size(); ++i) {
        EnqueueRows(group.stages[i], kernels[i], {}, false);
      }
      return;
    case WorkKind::kStatic:
      for (size_t i = 0; i < kernels.size(); ++i) EnqueueStatic(group.stages[i], kernels[i]);
      return;
    case WorkKind::kReduction:
      return EnqueueReduction(group.stages[0]);
    case WorkKind::kWhole:
      return EnqueueWhole(group.stages[0]);
  }
}

void StageEnqueuer::EnqueueLoop(const Group& group, const std::vector<PointwiseKernel>& kernels) {
  for (int64_t i = 0; i < shape_.steps; ++i) {
    const int64_t t = group.direction == Direction::kForward ? i : shape_.steps - 1 - i;
    for (size_t s = 0; s < kernels.size(); ++s) {
      follows_kernel_ = i > 0 && s > 0;  // the first step may leave a product of zeros out
      EnqueueRows(group.stages[s], kernels[s], {t, 1, shape_.ragged}, true);
    }
  }
  follows_kernel_ = false;
}

void StageEnqueuer::EnqueueTimeLoop(const Group& group, const PointwiseKernel& kernel) {
  const Stage& stage = group.stages[0];
  std::vector<RowOperand> inputs;
  std::vector<RowOutput> outputs;
  for (const Operand& operand : stage.inputs) inputs.push_back(OperandOf(operand));
  for (const View& output : stage.outputs) outputs.push_back(OutputOf(output));
  kernel.Launch({context_.sequences,
                 {0, shape_.steps, shape_.ragged},
                 group.direction == Direction::kReverse,
                 stage.outputs[0].width,
                 inputs,
                 outputs},
                stream());
}

void StageEnqueuer::EnqueueBeside(size_t first) {
  const cudaStream_t stream = context_.stream;
  side_.Fork(stream);
  EnqueuePersistent(first, exchange_.data());
  context_.stream = side_.get();
  EnqueuePersistent(first + 1, exchange_.data() + loops_[first]->tile().exchange_bytes);
  context_.stream = stream;
  side_.Join(stream);
  for (const size_t g : {first, first + 1}) EnqueueProductBehind(*matches_[g]);
}

void StageEnqueuer::EnqueueProductBehind(const LoopMatch& match) {
  if (match.product_is_read)
    EnqueueProduct(*match.product, {0, shape_.steps, shape_.ragged}, false);
}

void StageEnqueuer::EnqueuePersistent(size_t group, std::byte* exchange) {
  const LoopMatch& match = *matches_[group];
  const bool reverse = graph_.groups[group].direction == Direction::kReverse;
  LoopRun run;
  run.x = OperandOf(match.x);
  const PackedWeight& weight = graph_.weights[static_cast<size_t>(match.product->weight)];
  run.sequences = context_.sequences;
  run.range = {0, shape_.steps, shape_.ragged};
  run.reverse = reverse;
  run.end = shape_.steps;
  run.weight = WeightFor(match.product->weight);
  run.weight_stride = weight.features.back();
  run.weight_transposed = weight.transposed;
  if (match.product->bias.buffer >= 0) {
    run.bias = reinterpret_cast<const float*>(Address(match.product->bias, 0));
  }
  std::vector<RowOperand> inputs;
  std::vector<RowOutput> outputs;
  for (const Operand& operand : match.program->inputs) inputs.push_back(OperandOf(operand));
  for (const View& output : match.program->outputs) outputs.push_back(OutputOf(output));
  for (const View& kept : match.kept) outputs.push_back(OutputOf(kept));
  run.inputs = inputs;
  run.outputs = outputs;
  loops_[group]->Launch(run, exchange, &context_.fault->found, stream());
  ++persistent_loops_;
}

// range: steps of Step rows; one_step tells that the stage runs step after step.
void StageEnqueuer::EnqueueRows(const Stage& stage, const PointwiseKernel& kernel,
                                const RowRange& range, bool one_step) {
  ForgetSplits(stage);
  switch (stage.kind) {
    case Stage::Kind::kMatMul:
      return EnqueueProduct(stage, range, one_step);
    case Stage::Kind::kPointwise:
      return EnqueueProgram(stage, kernel, range, one_step);
    case Stage::Kind::kNode:
      break;
  }
  RunRowOperator(CallOf(stage), range, context_);
}

void StageEnqueuer::EnqueueProgram(const Stage& stage, const PointwiseKernel& kernel,
                                   const RowRange& range, bool one_step) {
  std::vector<RowOperand> inputs;
  std::vector<RowOutput> outputs;
  for (const Operand& operand : stage.inputs) {
    inputs.push_back(one_step ? OperandAt(operand, range.time_begin) : OperandOf(operand));
  }
  for (const View& output : stage.outputs) {
    outputs.push_back(one_step ? OutputAt(output, range.time_begin) : OutputOf(output));
  }
  kernel.Launch({.sequences = context_.sequences,
                 .range = range,
                 .reverse = false,
                 .n = stage.outputs[0].width,
                 .inputs = inputs,
                 .outputs = outputs,
                 .follows_kernel = follows_kernel_},
                stream());
}

void StageEnqueuer::EnqueueStatic(const Stage& stage, const PointwiseKernel& kernel) {
  switch (stage.kind) {
    case Stage::Kind::kMatMul:
      return EnqueueStaticProduct(stage);
    case Stage::Kind::kNode:
      return EnqueueStaticNode(stage);
    case Stage::Kind::kPointwise:
      break;
  }
  const Sequences sequences = context_.sequences;
  context_.sequences = {1, 1};
  EnqueueProgram(stage, kernel, {}, false);
  context_.sequences = sequences;
}

void StageEnqueuer::EnqueueStaticNode(const Stage& stage) {
  const auto at = [&](size_t i) {
    return reinterpret_cast<const float*>(Address(stage.inputs[i].view, 0));
  };
  auto* y = reinterpret_cast<float*>(Address(stage.outputs[0], 0));
  const int64_t width = stage.outputs[0].width;
  const auto inner = [&] {
    return ElementCount({stage.features.begin() + 1, stage.features.end()});
  };
  switch (stage.op) {
    case Op::kRowCount:
      return CopyStatic(row_counts_ + (stage.attributes.domain == Domain::kBatch ? 1 : 0), y, 1,
                        stream());
    case Op::kSlice:
      return CopyStatic(at(0) + stage.attributes.begin * inner(), y, width, stream());
    case Op::kPad:
      ZeroOutput(stage);
      return CopyStatic(at(0), y + stage.attributes.begin * inner(), stage.inputs[0].view.width,
                        stream());
    case Op::kConcat:
      for (size_t i = 0; i < stage.inputs.size(); ++i) {
        CopyStatic(at(i), y, stage.inputs[i].view.width, stream());
        y += stage.inputs[i].view.width;
      }
      return;
    case Op::kTranspose:
      return TransposeStatic(at(0), y,
                             ElementCount({stage.features.begin(), stage.features.end() - 2}),
                             stage.features.back(), stage.features.end()[-2], stream());
    case Op::kProduct: {
      const int64_t m = stage.features[0];
      const int64_t n = stage.features[1];
      Gemm gemm;
      gemm.m = m;
      gemm.n = n;
      gemm.k = m == 0 ? 0 : stage.inputs[0].view.width / m;
      gemm.a = {at(0), gemm.k, 0, DType::kFloat32, false};
      gemm.b = {at(1), n, 0, DType::kFloat32, false};
      gemm.c = y;
      gemm.c_stride = n;
      return gemm_.Run(gemm, stream());
    }
    default:
      break;
  }
  OperatorContext one_row = context_;
  one_row.sequences = {1, 1};
  RunRowOperator(CallOf(stage), {}, one_row);
}

void StageEnqueuer::ZeroOutput(const Stage& stage) const {
  const View& y = stage.outputs[0];
  TL_CUDA_CHECK(
      cudaMemsetAsync(Address(y, 0), 0, static_cast<size_t>(y.width) * sizeof(float), stream()));
}

void StageEnqueuer::EnqueueReduction(const Stage& stage) {
  if (stage.op == Op::kOuter) return EnqueueOuter(stage);
  OperatorContext context = context_;
  RowRange range;
  if (stage.domain == Domain::kStep) range = {0, shape_.steps, shape_.ragged};
  if (stage.domain == Domain::kStatic) context.sequences = {1, 1};
  SumRows({OperandOf(stage.inputs[0]), stage.inputs[0].view.width}, range,
          reinterpret_cast<float*>(Address(stage.outputs[0], 0)), scratch_.data(), context);
}

OperatorCall StageEnqueuer::CallOf(const Stage& stage) const {
  OperatorCall call;
  call.op = stage.op;
  call.attributes = stage.attributes;
  call.domain = stage.domain;
  for (const Group& group : graph_.groups) {
    const auto* const first = group.stages.data();
    if (&stage >= first && &stage < first + group.stages.size()) break;
    call.stage += static_cast<int32_t>(group.stages.size());
  }
  for (const Operand& operand : stage.inputs) {
    call.inputs.push_back({OperandOf(operand), operand.view.width});
  }
  call.output = OutputOf(stage.outputs[0]);
  call.width = stage.outputs[0].width;
  return call;
}

void StageEnqueuer::EnqueueWhole(const Stage& stage) {
  const OperatorCall call = CallOf(stage);
  if (stage.op != Op::kScatterAdd) return RunSequenceOperator(call, context_);
  RowRange range;
  if (stage.domain == Domain::kStep) range = {0, shape_.steps, shape_.ragged};
  ScatterAdd(call.inputs[0], call.inputs[1], range, stage.attributes.size,
             reinterpret_cast<float*>(Address(stage.outputs[0], 0)), scratch_.data(), call.stage,
             context_);
}

}  // namespace turbolstm::cuda
