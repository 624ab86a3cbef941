#include "execution/stage_enqueuer_cuda.h"

#include <algorithm>
#include <limits>

#include "backend/cuda/check_cuda.h"
#include "base/error.h"
#include "execution/loop_tuning_cuda.h"
#include "execution/split_choice.h"
#include "execution/turns.h"
#include "execution/typed_programs_cuda.h"
#include "execution/zero_padding.h"
#include "plan/partition.h"

namespace turbolstm::cuda {

StageEnqueuer::StageEnqueuer(const LoweredGraph& graph, const DeviceMemory& memory,
                             const DeviceOptions& options)
    : graph_(graph),
      memory_(memory),
      narrow_(OperandType(graph.precision)),
      split_rule_(options.split),
      kind_(options.schedule),
      tune_(options.tune),
      in_turns_(options.in_turns),
      time_blocks_(options.time_blocks),
      turns_(Turns(graph)),
      sums_with_zero_padding_(SumsWithZeroPadding(graph)) {
  const std::vector<PointwiseKernel> compiled = CompilePointwise(TypedProgramsOf(graph_));
  auto next = compiled.begin();
  for (const Group& group : graph_.groups) {
    one_kernel_.push_back(RunsInOneKernel(graph_, group));
    matches_.push_back(MatchPersistentLoop(graph_, group));
    const bool phased = options.phased_loops && !one_kernel_.back() && !matches_.back();
    phased_matches_.push_back(phased ? MatchPhasedLoop(graph_, group) : std::nullopt);
    kernels_.emplace_back(group.stages.size());
    for (size_t i = 0; i < group.stages.size(); ++i) {
      if (group.stages[i].kind == Stage::Kind::kPointwise) kernels_.back()[i] = *next++;
    }
  }
  FindZeroPadded();
  FindOrderedAhead();
  split_runs_ = EndsOfSplitRuns(graph_);
  PlaceSplitWeights();
}

bool StageEnqueuer::MakeRoom(cudaStream_t stream) {
  Room room;
  for (const Group& group : graph_.groups) {
    for (const Stage& stage : group.stages) AddRoom(stage, group.is_loop(), &room);
  }
  for (const std::optional<LoopMatch>& match : matches_) {
    if (match && match->product_is_read) AddRoom(*match->product, false, &room);
  }
  bool moved = false;
  const auto grow = [&](DeviceBuffer* buffer, int64_t bytes, std::string_view what) {
    const bool grown = GrowBuffer(buffer, bytes, what, stream);
    moved |= grown;
    return grown;
  };
  for (size_t r = 0; r < (schedule_ ? kRooms : 1); ++r) {
    for (size_t i : {0, 1}) {
      grow(&gathered_[r][i], room.gathered[i], "rows gathered for products");
    }
    grow(&scratch_[r], room.scratch, "sums over rows");
  }
  for (size_t i : {0, 1}) grow(&split_[i], room.split[i], "pieces of what products multiply");
  grow(&split_weights_, room.split_weights, "pieces of weights");
  grow(&exchange_, exchange_bytes_, "what blocks hand to each other");
  if (ordered_ahead_) grow(&order_, OrderBytes(*ordered_ahead_), "rows by their entry of a table");
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
  if (stage.op == Op::kScatterAdd && &stage != ordered_ahead_) {
    room->scratch = std::max(room->scratch, OrderBytes(stage));
  }
}

bool StageEnqueuer::CanBePersistent() const {
  constexpr int64_t kMostRows = std::numeric_limits<int32_t>::max();  // counted in 32 bits
  return shape_.steps > 1 && rows() <= kMostRows;
}

LoopTile StageEnqueuer::TileFor(size_t group, int64_t processors, int64_t chains) const {
  if (!matches_[group] || !CanBePersistent()) return {};
  const LoopStep& step = matches_[group]->step;
  const LoopTile tile = tune_ && shape_.batch > 0
                            ? TunedTile(step, shape_.batch, RoomOnThisDevice(processors), chains)
                            : TileOnThisDevice(step, shape_.batch, processors, chains);
  const bool stepwise =
      tile.parts == 0 || StepwiseCost(step, shape_.batch) < PersistentCost(step, tile);
  return stepwise ? LoopTile{} : tile;
}

LoopTile StageEnqueuer::TileBeside(size_t group, int64_t processors, int64_t chains) const {
  if (!matches_[group] || !CanBePersistent()) return {};
  return TileOnThisDevice(matches_[group]->step, shape_.batch, processors, chains);
}

bool StageEnqueuer::RunBeside(size_t first, int64_t processors) const {
  if (first + 1 >= turns_.size() || turns_[first] != turns_[first + 1]) return false;
  double after = 0, beside = 0;
  for (const size_t g : {first, first + 1}) {
    const LoopTile whole = TileFor(g, processors);
    const LoopTile half = TileFor(g, processors / 2, ChainsOf(g));
    if (whole.parts == 0 || half.parts == 0) return false;
    after += PersistentCost(matches_[g]->step, whole);
    beside = std::max(beside, PersistentCost(matches_[g]->step, half));
  }
  return beside < after;
}

int64_t StageEnqueuer::ChainsOf(size_t group) const {
  if (!matches_[group] || matches_[group]->step.x.adjoint) return 0;
  return TileFor(group, LoopProcessors()).chains;
}

LoopTile StageEnqueuer::TileInTurns(size_t group) const {
  const int64_t processors = LoopProcessors();
  const bool beside = beside_[group] || (group > 0 && beside_[group - 1]);
  return beside ? TileFor(group, processors / 2, ChainsOf(group)) : TileFor(group, processors);
}

void StageEnqueuer::SetShape(const DeviceShape& shape) {
  shape_ = shape;
  const int64_t processors = LoopProcessors();
  beside_.assign(graph_.groups.size(), false);
  for (size_t g = 0; g < beside_.size() && kind_ != ScheduleKind::kSequential; ++g) {
    beside_[g] = RunBeside(g, processors);
  }
  auto known = schedules_.find(shape);
  if (known == schedules_.end()) known = schedules_.emplace(shape, Overlapping()).first;
  schedule_ = known->second ? &*known->second : nullptr;
  MakeLoops();
}

// Kernels of loops depend on the number of sequences.
void StageEnqueuer::MakeLoops() {
  loops_.assign(graph_.groups.size(), std::nullopt);
  state_bytes_.assign(graph_.groups.size(), 0);
  exchange_bytes_ = 0;
  phased_loops_.clear();
  phased_loops_.resize(graph_.groups.size());
  if (schedule_) return MakeScheduledLoops();
  for (size_t g = 0; g < loops_.size(); ++g) {
    MakePhasedLoop(g);
    const LoopTile tile = TileInTurns(g);
    if (tile.parts == 0) continue;
    loops_[g].emplace(matches_[g]->step, tile);
    const bool second = g > 0 && beside_[g - 1];
    exchange_bytes_ = std::max(
        exchange_bytes_, tile.exchange_bytes + (second ? loops_[g - 1]->tile().exchange_bytes : 0));
  }
}

void StageEnqueuer::MakePhasedLoop(size_t group) {
  if (!phased_matches_[group] || !CanBePersistent()) return;
  const PhasedStep& step = phased_matches_[group]->step;
  const PhasedTile tile = PhasedTileOnThisDevice(step, shape_.batch);
  if (tile.parts == 0) return;
  phased_loops_[group].emplace(step, tile);
  exchange_bytes_ = std::max(exchange_bytes_, tile.exchange_bytes);
}

int64_t StageEnqueuer::bytes() const {
  size_t bytes = exchange_.size() + split_[0].size() + split_[1].size() + split_weights_.size() +
                 zeros_.size() + order_.size();
  for (size_t r = 0; r < kRooms; ++r) {
    bytes += gathered_[r][0].size() + gathered_[r][1].size() + scratch_[r].size();
  }
  return gemm_.workspace_bytes() + static_cast<int64_t>(bytes);
}

void StageEnqueuer::Begin(const OperatorContext& context, const float* row_counts) {
  context_ = context;
  row_counts_ = row_counts;
  persistent_loops_ = 0;
  narrow_made_.assign(memory_.narrow_statics().size(), false);
  split_made_.assign(split_places_.size(), false);
  held_[0] = held_[1] = {};
  is_ordering_ = false;
}

void StageEnqueuer::Enqueue(const OperatorContext& context, const float* row_counts) {
  Begin(context, row_counts);
  OrderAhead();
  schedule_ ? EnqueueTasks() : EnqueueInTurns(0, graph_.groups.size());
}

void StageEnqueuer::EnqueueEarly(const OperatorContext& context, const float* row_counts) {
  Begin(context, row_counts);
  EnqueueInTurns(0, graph_.first_late.value_or(graph_.groups.size()));
  narrow_made_early_ = narrow_made_;
}

// Pieces lie in memory that other uses have overwritten since; 16-bit copies are there.
void StageEnqueuer::EnqueueLate(const OperatorContext& context, const float* row_counts) {
  Begin(context, row_counts);
  if (!narrow_made_early_.empty()) narrow_made_ = narrow_made_early_;
  EnqueueInTurns(graph_.first_late.value_or(graph_.groups.size()), graph_.groups.size());
}

void StageEnqueuer::EnqueueInTurns(size_t begin, size_t end) {
  room_ = 0;
  product_processors_ = 0;
  for (size_t g = begin; g < end; ++g) {
    if (const size_t split_end = EndOfSplits(g, end); split_end > g) {
      EnqueueSplits(g, split_end);
      for (size_t done = g; done < split_end; ++done) ForgetSplits(graph_.groups[done].stages[0]);
      g = split_end - 1;
      continue;
    }
    if (beside_[g]) {
      EnqueueBeside(g);
    } else if (g > 0 && beside_[g - 1]) {
      // Runs already.
    } else if (loops_[g]) {
      EnqueuePersistent(g, exchange_.data());
      EnqueueProductBehind(*matches_[g]);
    } else if (phased_loops_[g]) {
      EnqueuePhased(g);
    } else {
      EnqueueGroup(g, AllSteps(), false);
    }
    for (const Stage& stage : graph_.groups[g].stages) ForgetSplits(stage);
  }
}

void StageEnqueuer::EnqueueGroup(size_t number, const RowRange& steps, bool adds) {
  const Group& group = graph_.groups[number];
  const std::vector<PointwiseKernel>& kernels = kernels_[number];
  if (one_kernel_[number]) return EnqueueTimeLoop(group, kernels[0]);
  switch (KindOfWork(group)) {
    case WorkKind::kLoop:
      return EnqueueLoop(group, kernels);
    case WorkKind::kSteps:
      for (size_t i = 0; i < kernels.size(); ++i) {
        EnqueueRows(group.stages[i], kernels[i], steps, false);
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
      return EnqueueReduction(group.stages[0], steps, adds);
    case WorkKind::kWhole:
      return EnqueueWhole(group.stages[0]);
  }
}

void StageEnqueuer::EnqueueLoop(const Group& group, const std::vector<PointwiseKernel>& kernels) {
  for (int64_t i = 0; i < shape_.steps; ++i) {
    const int64_t t = group.direction == Direction::kForward ? i : shape_.steps - 1 - i;
    for (size_t s = 0; s < kernels.size(); ++s) {
      if (i == shape_.steps - 1 && IsUnreadAtEnd(group, group.stages[s])) continue;
      follows_kernel_ = i > 0 && s > 0;  // the first step may leave a product of zeros out
      EnqueueRows(group.stages[s], kernels[s], {t, 1, shape_.ragged}, true);
    }
  }
  follows_kernel_ = false;
}

// A ring is read by its own loop only.
bool StageEnqueuer::IsUnreadAtEnd(const Group& group, const Stage& stage) const {
  if (stage.kind != Stage::Kind::kMatMul || buffer(stage.outputs[0]).ring == 0) return false;
  return std::all_of(group.stages.begin(), group.stages.end(), [&](const Stage& reader) {
    return std::all_of(reader.inputs.begin(), reader.inputs.end(), [&](const Operand& operand) {
      return operand.delay > 0 || !Overlaps(operand.view, stage.outputs[0]);
    });
  });
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
  if (match.product_is_read) EnqueueProduct(*match.product, AllSteps(), false);
}

void StageEnqueuer::EnqueuePersistent(size_t group, std::byte* exchange) {
  EnqueuePersistent(group, exchange, AllSteps(), nullptr);
}

void StageEnqueuer::EnqueuePersistent(size_t group, std::byte* exchange, const RowRange& steps,
                                      std::byte* carry) {
  const LoopMatch& match = *matches_[group];
  const bool reverse = graph_.groups[group].direction == Direction::kReverse;
  LoopRun run;
  run.x = OperandOf(match.x);
  const PackedWeight& weight = graph_.weights[static_cast<size_t>(match.product->weight)];
  run.sequences = context_.sequences;
  run.range = AllSteps();
  run.reverse = reverse;
  run.begin = reverse ? shape_.steps - steps.time_begin - steps.steps : steps.time_begin;
  run.end = run.begin + steps.steps;
  run.carry = carry;
  const WeightRows rows = WeightFor(match.product->weight);
  run.weight = rows.data;
  run.weight_stride = rows.stride;
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
  if (run.begin == 0) ++persistent_loops_;
}

void StageEnqueuer::EnqueuePhased(size_t group) {
  const PhasedMatch& match = *phased_matches_[group];
  PhasedRun run;
  run.sequences = context_.sequences;
  run.range = AllSteps();
  run.reverse = graph_.groups[group].direction == Direction::kReverse;
  std::vector<PhasedRun::Weights> products;
  for (const Stage* const product : match.products) {
    const WeightRows rows = WeightFor(product->weight);
    products.push_back(
        {rows.data, rows.stride, graph_.weights[static_cast<size_t>(product->weight)].transposed});
  }
  std::vector<RowOperand> inputs;
  std::vector<RowOutput> outputs;
  for (const Operand& operand : match.inputs) inputs.push_back(OperandOf(operand));
  for (const View& output : match.outputs) outputs.push_back(OutputOf(output));
  run.products = products;
  run.inputs = inputs;
  run.outputs = outputs;
  phased_loops_[group]->Launch(run, exchange_.data(), &context_.fault->found, stream());
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
      return gemm_.Run(gemm, stream(), room_);
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

void StageEnqueuer::EnqueueReduction(const Stage& stage, const RowRange& steps, bool adds) {
  if (stage.op == Op::kOuter) return EnqueueOuter(stage, steps, adds);
  OperatorContext context = context_;
  RowRange range;
  if (stage.domain == Domain::kStep) range = steps;
  if (stage.domain == Domain::kStatic) context.sequences = {1, 1};
  SumRows({OperandOf(stage.inputs[0]), stage.inputs[0].view.width}, range,
          reinterpret_cast<float*>(Address(stage.outputs[0], 0)), scratch_[room_].data(), context);
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
  if (stage.op == Op::kScatterAdd) return EnqueueScatter(stage, call);
  RunSequenceOperator(call, context_);
}

}  // namespace turbolstm::cuda
