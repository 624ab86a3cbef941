#include "execution/stage_enqueuer_cuda.h"

#include <algorithm>
#include <limits>

#include "backend/cuda/check_cuda.h"
#include "base/error.h"
#include "execution/typed_programs_cuda.h"
#include "plan/partition.h"

namespace turbolstm::cuda {
namespace {

template <typename Visit>
void ForEachStage(const LoweredGraph& graph, Visit visit) {
  for (const Group& group : graph.groups) {
    for (const Stage& stage : group.stages) visit(stage);
  }
}

bool IsProduct(const Stage& stage) {
  return stage.kind == Stage::Kind::kMatMul || stage.op == Op::kOuter;
}

// Grows only, so that it settles at the largest shape. True if it moved.
bool Grow(DeviceBuffer* buffer, int64_t bytes, std::string_view what) {
  if (static_cast<int64_t>(buffer->size()) >= bytes) return false;
  *buffer = DeviceBuffer();
  *buffer = DeviceBuffer(static_cast<size_t>(bytes), what);
  return true;
}

signed char Code(DType dtype) {
  return static_cast<signed char>(dtype);
}

}  // namespace

StageEnqueuer::StageEnqueuer(const LoweredGraph& graph, const DeviceMemory& memory)
    : graph_(graph), memory_(memory), narrow_(OperandType(graph.precision)) {
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
  PlaceNarrowStatics();
}

// Programs and operators write zeros to padded rows, and a product without a bias of such rows of
// the same step has them too.
void StageEnqueuer::FindZeroPadded() {
  zero_padded_.assign(graph_.buffers.size(), true);
  for (bool changed = true; changed;) {
    changed = false;
    ForEachStage(graph_, [&](const Stage& stage) {
      if (stage.kind != Stage::Kind::kMatMul) return;
      const Operand& x = stage.inputs[0];
      const bool zero = stage.bias.buffer < 0 && x.delay == 0 &&
                        buffer(x.view).domain == Domain::kStep &&
                        zero_padded_[static_cast<size_t>(x.view.buffer)];
      const auto to = static_cast<size_t>(stage.outputs[0].buffer);
      changed |= !zero && zero_padded_[to];
      if (!zero) zero_padded_[to] = false;
    });
  }
}

void StageEnqueuer::PlaceNarrowStatics() {
  if (narrow_ == DType::kFloat32) return;
  int64_t bytes = 0;
  const auto place = [&](const View& view) {
    for (const auto& [known, offset] : narrow_places_) {
      if (known == view) return;
    }
    narrow_places_.emplace_back(view, bytes);
    bytes += (view.width * static_cast<int64_t>(SizeOf(narrow_)) + 255) / 256 * 256;
  };
  ForEachStage(graph_, [&](const Stage& stage) {
    if (stage.kind != Stage::Kind::kMatMul || stage.domain == Domain::kStatic) return;
    place(graph_.weights[static_cast<size_t>(stage.weight)].matrix);
    if (stage.bias.buffer >= 0 && buffer(stage.outputs[0]).dtype == narrow_) place(stage.bias);
  });
  narrow_statics_ = DeviceBuffer(static_cast<size_t>(bytes), "16-bit weights");
}

const void* StageEnqueuer::NarrowStatic(const View& view) {
  for (size_t i = 0; i < narrow_places_.size(); ++i) {
    const auto& [known, offset] = narrow_places_[i];
    if (!(known == view)) continue;
    std::byte* const to = narrow_statics_.data() + offset;
    if (!narrow_made_[i]) {
      Convert(Address(view, 0), DType::kFloat32, to, narrow_, view.width, stream());
      narrow_made_[i] = true;
    }
    return to;
  }
  Fail("[product] a weight of {} elements has no 16-bit copy", view.width);
}

const void* StageEnqueuer::WeightFor(int32_t weight) {
  const View& matrix = graph_.weights[static_cast<size_t>(weight)].matrix;
  return narrow_ == DType::kFloat32 ? Address(matrix, 0) : NarrowStatic(matrix);
}

bool StageEnqueuer::Resize(const DeviceShape& shape) {
  shape_ = shape;
  int64_t gathered[2] = {0, 0};
  int64_t zeros = 0;
  int64_t scratch = 0;
  for (const Group& group : graph_.groups) {
    const bool step_by_step = group.is_loop();
    for (const Stage& stage : group.stages) {
      if (IsProduct(stage)) {
        const int64_t count =
            stage.domain == Domain::kStep && !step_by_step ? rows() : shape_.batch;
        for (size_t i = 0; i < stage.inputs.size(); ++i) {
          const int64_t bytes = stage.inputs[i].view.width * 4;
          if (MustGather(stage, i, step_by_step)) {
            gathered[i] = std::max(gathered[i], count * bytes);
          }
          if (stage.inputs[i].delay > 0) {
            gathered[i] = std::max(gathered[i], shape_.batch * bytes);  // a learned initial value
            zeros = std::max(zeros, shape_.batch * bytes);
          }
        }
      }
      if (stage.op == Op::kSumRows) {
        scratch = std::max(scratch, SumRowsScratchBytes(stage.inputs[0].view.width));
      }
      if (stage.op == Op::kScatterAdd) {
        const int64_t count = stage.domain == Domain::kStep ? rows() : shape_.batch;
        scratch = std::max(scratch, ScatterAddScratchBytes(count, stage.attributes.size));
      }
    }
  }
  bool moved = MakeLoops();
  moved |= Grow(&gathered_[0], gathered[0], "rows gathered for products");
  moved |= Grow(&gathered_[1], gathered[1], "rows gathered for products");
  moved |= Grow(&scratch_, scratch, "sums over rows");
  if (Grow(&zeros_, zeros, "rows of zeros")) {
    moved = true;
    TL_CUDA_CHECK(cudaMemset(zeros_.data(), 0, zeros_.size()));
  }
  return moved;
}

// Kernels of loops depend on the number of sequences.
bool StageEnqueuer::MakeLoops() {
  loops_.assign(graph_.groups.size(), std::nullopt);
  int64_t bytes = 0;
  for (size_t g = 0; g < loops_.size(); ++g) {
    if (!matches_[g] || shape_.resets || shape_.steps < 2) continue;
    PersistentLoop loop(matches_[g]->step, shape_.batch);
    if (!loop.Fits()) continue;
    bytes = std::max(bytes, loop.ScratchBytes());
    loops_[g] = std::move(loop);
  }
  return Grow(&arrivals_, bytes, "signals between blocks");
}

int64_t StageEnqueuer::bytes() const {
  return gemm_.workspace_bytes() +
         static_cast<int64_t>(narrow_statics_.size() + arrivals_.size() + gathered_[0].size() +
                              gathered_[1].size() + zeros_.size() + scratch_.size());
}

// --- Where rows lie.

std::byte* StageEnqueuer::Address(const View& view, int64_t row) const {
  return memory_.base(view.buffer) + (row * buffer(view).width + view.column) * ElementSize(view);
}

int64_t StageEnqueuer::StepRow(const View& view, int64_t time) const {
  return time % memory_.period(view.buffer) * shape_.batch;
}

RowOperand StageEnqueuer::OperandOf(const Operand& operand) const {
  const Buffer& source = buffer(operand.view);
  RowOperand x;
  x.data = reinterpret_cast<const char*>(Address(operand.view, 0));
  x.row_bytes = source.width * ElementSize(operand.view);
  x.dtype = Code(source.dtype);
  x.delay = operand.delay;
  x.direction = static_cast<signed char>(operand.direction);
  x.adjoint = operand.adjoint;
  switch (source.domain) {
    case Domain::kStatic:
      x.kind = RowKind::kShared;
      x.row_bytes = 0;
      break;
    case Domain::kBatch:
      x.kind = RowKind::kBatch;
      break;
    case Domain::kStep:
      x.kind = RowKind::kStep;
      x.period = memory_.period(operand.view.buffer);
      break;
  }
  if (operand.init.buffer >= 0) {
    const Buffer& init = buffer(operand.init);
    TL_CHECK(init.dtype == source.dtype, "[execution] {} is {}, its initial value {}", source.name,
             Name(source.dtype), Name(init.dtype));
    x.init = reinterpret_cast<const char*>(Address(operand.init, 0));
    x.init_row_bytes = init.domain == Domain::kBatch ? init.width * ElementSize(operand.init) : 0;
    x.init_step_bytes = operand.init_stride * ElementSize(operand.init);
  }
  return x;
}

// With the step settled where it can be, so that the kernel has nothing to find out.
RowOperand StageEnqueuer::OperandAt(const Operand& operand, int64_t time) const {
  RowOperand x = OperandOf(operand);
  if (buffer(operand.view).domain != Domain::kStep && operand.delay == 0) return x;
  if (!LiesEvenly(operand)) return x;
  const int64_t source = operand.delay == 0 ? time : SourceStep(operand, time);
  x.delay = 0;
  if (source < 0 || source >= shape_.steps) {
    const View init = InitRow(operand, time);
    x.kind = x.init_row_bytes > 0 ? RowKind::kBatch : RowKind::kShared;
    x.row_bytes = x.init_row_bytes;
    x.data = init.buffer < 0 ? nullptr : reinterpret_cast<const char*>(Address(init, 0));
    return x;
  }
  x.kind = RowKind::kBatch;
  x.data = reinterpret_cast<const char*>(Address(operand.view, StepRow(operand.view, source)));
  return x;
}

RowOutput StageEnqueuer::OutputOf(const View& view) const {
  const Buffer& target = buffer(view);
  RowOutput y;
  y.data = reinterpret_cast<char*>(Address(view, 0));
  y.row_bytes = target.domain == Domain::kStatic ? 0 : target.width * ElementSize(view);
  y.dtype = Code(target.dtype);
  y.kind = target.domain == Domain::kStep    ? RowKind::kStep
           : target.domain == Domain::kBatch ? RowKind::kBatch
                                             : RowKind::kShared;
  if (y.kind == RowKind::kStep) y.period = memory_.period(view.buffer);
  return y;
}

RowOutput StageEnqueuer::OutputAt(const View& view, int64_t time) const {
  RowOutput y = OutputOf(view);
  if (y.kind != RowKind::kStep) return y;
  y.kind = RowKind::kBatch;
  y.data = reinterpret_cast<char*>(Address(view, StepRow(view, time)));
  return y;
}

// In reverse, shorter sequences begin within the steps: what stands there must be what their first
// step is to find.
bool StageEnqueuer::LiesEvenly(const Operand& operand) const {
  const Buffer& source = buffer(operand.view);
  if (operand.delay == 0) return source.domain != Domain::kStatic;
  if (source.domain != Domain::kStep || shape_.resets) return false;
  if (operand.direction == Direction::kForward || !shape_.ragged) return true;
  return operand.init.buffer < 0 && zero_padded_[static_cast<size_t>(operand.view.buffer)];
}

// Whether a product's operand has to be brought together first.
bool StageEnqueuer::MustGather(const Stage& stage, size_t i, bool one_step) const {
  const Operand& operand = stage.inputs[i];
  if (stage.domain == Domain::kStatic) return false;
  if (stage.op != Op::kOuter && (one_step || stage.domain != Domain::kStep)) {
    return !LiesEvenly(operand);
  }
  if (stage.op == Op::kOuter && CanShift(stage)) return false;
  // Padded rows of both operands would be added up.
  const bool padded = stage.op == Op::kOuter && i == 0 && shape_.ragged &&
                      stage.domain == Domain::kStep &&
                      !zero_padded_[static_cast<size_t>(operand.view.buffer)];
  return padded || operand.delay > 0 || buffer(operand.view).domain != stage.domain;
}

// The initial value that is read where there is no source step.
View StageEnqueuer::InitRow(const Operand& operand, int64_t time) const {
  if (operand.adjoint || operand.init.buffer < 0) return {};
  View init = operand.init;
  const int64_t position =
      operand.direction == Direction::kForward ? time : shape_.steps - 1 - time;
  init.column += position * operand.init_stride;
  return init;
}

StageEnqueuer::Rows StageEnqueuer::RowsAt(const Operand& operand, int64_t time) {
  const Buffer& source = buffer(operand.view);
  if (!LiesEvenly(operand)) return Gathered(operand, {time, 1, shape_.ragged}, 0);
  if (source.domain == Domain::kBatch) {
    return {Address(operand.view, 0), source.width, source.dtype};
  }
  const int64_t step = operand.delay == 0 ? time : SourceStep(operand, time);
  if (step >= 0 && step < shape_.steps) {
    return {Address(operand.view, StepRow(operand.view, step)), source.width, source.dtype};
  }
  const View init = InitRow(operand, time);
  if (init.buffer < 0) return {nullptr, operand.view.width, source.dtype};
  if (buffer(init).domain == Domain::kStatic) {
    return Gathered(operand, {time, 1, shape_.ragged}, 0);
  }
  return {Address(init, 0), buffer(init).width, source.dtype};
}

StageEnqueuer::Rows StageEnqueuer::Gathered(const Operand& operand, const RowRange& range,
                                            size_t slot) {
  const DType dtype = buffer(operand.view).dtype;
  GatherRows({OperandOf(operand), operand.view.width}, range, dtype, gathered_[slot].data(),
             context_);
  return {gathered_[slot].data(), operand.view.width, dtype};
}

// --- Groups and stages.

void StageEnqueuer::Enqueue(const OperatorContext& context, const float* row_counts) {
  context_ = context;
  row_counts_ = row_counts;
  persistent_loops_ = 0;
  narrow_made_.assign(narrow_places_.size(), false);
  for (size_t g = 0; g < graph_.groups.size(); ++g) {
    if (one_kernel_[g]) {
      EnqueueTimeLoop(graph_.groups[g], kernels_[g][0]);
    } else if (!EnqueuePersistent(g)) {
      EnqueueGroup(graph_.groups[g], kernels_[g]);
    }
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

bool StageEnqueuer::EnqueuePersistent(size_t group) {
  if (!loops_[group]) return false;
  const LoopMatch& match = *matches_[group];
  const bool reverse = graph_.groups[group].direction == Direction::kReverse;
  constexpr int64_t kMostRows = std::numeric_limits<int32_t>::max();
  if (rows() > kMostRows) return false;  // which the kernel counts in 32 bits
  // In reverse, shorter sequences begin within the steps, behind rows that the loop made zero.
  if (reverse && shape_.ragged && match.x.init.buffer >= 0) return false;
  LoopRun run;
  run.x = OperandOf(match.x);
  run.x.delay = 0;
  const PackedWeight& weight = graph_.weights[static_cast<size_t>(match.product->weight)];
  run.sequences = context_.sequences;
  run.range = {0, shape_.steps, shape_.ragged};
  run.reverse = reverse;
  run.weight = WeightFor(match.product->weight);
  if (!IsAligned(match.step, run.x, run.weight)) return false;
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
  loops_[group]->Launch(run, arrivals_.data(), &context_.fault->found, stream());
  ++persistent_loops_;
  return true;
}

// range: steps of Step rows; one_step tells that the stage runs step after step.
void StageEnqueuer::EnqueueRows(const Stage& stage, const PointwiseKernel& kernel,
                                const RowRange& range, bool one_step) {
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

void StageEnqueuer::EnqueueProduct(const Stage& stage, const RowRange& range, bool one_step) {
  const Operand& x = stage.inputs[0];
  const View& y = stage.outputs[0];
  if (one_step || stage.domain != Domain::kStep) {
    const int64_t row = buffer(y).domain == Domain::kStep ? StepRow(y, range.time_begin) : 0;
    return Multiply(stage, RowsAt(x, range.time_begin), shape_.batch, y, Address(y, row));
  }
  const Rows all = MustGather(stage, 0, false)
                       ? Gathered(x, range, 0)
                       : Rows{Address(x.view, 0), buffer(x.view).width, buffer(x.view).dtype};
  Multiply(stage, all, rows(), y, Address(y, 0));
}

// Weights [heads, m, k] are block diagonal: each head reads and writes columns of its own.
void StageEnqueuer::Multiply(const Stage& stage, const Rows& x, int64_t count, const View& y,
                             std::byte* to) {
  if (!x.data && stage.accumulate && stage.bias.buffer < 0) return;
  const PackedWeight& weight = graph_.weights[static_cast<size_t>(stage.weight)];
  const std::vector<int64_t>& shape = weight.features;
  Gemm gemm;
  gemm.batches = shape.size() == 3 ? shape[0] : 1;
  const int64_t rows = shape.end()[-2];
  const int64_t columns = shape.back();
  gemm.m = count;
  gemm.n = weight.transposed ? columns : rows;
  gemm.k = weight.transposed ? rows : columns;
  gemm.a = {x.data ? x.data : zeros_.data(), x.stride, gemm.k, x.dtype, false};
  gemm.b = {WeightFor(stage.weight), columns, rows * columns, narrow_, !weight.transposed};
  gemm.accumulate = stage.accumulate;
  gemm.c = to;
  gemm.c_dtype = buffer(y).dtype;
  gemm.c_stride = buffer(y).width;
  gemm.c_batch_stride = gemm.n;
  gemm.fp32 = graph_.precision == Precision::kTf32 ? Fp32Product::kTf32 : Fp32Product::kIeee;
  if (stage.bias.buffer < 0) return gemm_.Run(gemm, stream());
  gemm.bias = gemm.c_dtype == DType::kFloat32 ? Address(stage.bias, 0) : NarrowStatic(stage.bias);
  RunWithBias(gemm);
}

// The library adds a bias to single products only.
void StageEnqueuer::RunWithBias(Gemm gemm) {
  const auto advance = [](auto*& pointer, int64_t elements, DType dtype) {
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(
        reinterpret_cast<uintptr_t>(pointer) + static_cast<size_t>(elements) * SizeOf(dtype));
  };
  const int64_t batches = std::exchange(gemm.batches, 1);
  for (int64_t i = 0; i < batches; ++i) {
    gemm_.Run(gemm, stream());
    advance(gemm.a.data, gemm.a.batch_stride, gemm.a.dtype);
    advance(gemm.b.data, gemm.b.batch_stride, gemm.b.dtype);
    advance(gemm.bias, gemm.n, gemm.c_dtype);
    advance(gemm.c, gemm.c_batch_stride, gemm.c_dtype);
  }
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

void StageEnqueuer::EnqueueStaticProduct(const Stage& stage) {
  const PackedWeight& weight = graph_.weights[static_cast<size_t>(stage.weight)];
  const std::vector<int64_t>& shape = weight.features;
  const View& x = stage.inputs[0].view;
  Gemm gemm;
  gemm.batches = shape.size() == 3 ? shape[0] : 1;
  gemm.m = 1;
  gemm.n = weight.transposed ? shape.back() : shape.end()[-2];
  gemm.k = weight.transposed ? shape.end()[-2] : shape.back();
  gemm.a = {Address(x, 0), gemm.k, gemm.k, DType::kFloat32, false};
  gemm.b = {Address(weight.matrix, 0), shape.back(), gemm.n * gemm.k, DType::kFloat32,
            !weight.transposed};
  gemm.accumulate = stage.accumulate;
  gemm.c = Address(stage.outputs[0], 0);
  gemm.c_stride = gemm.c_batch_stride = gemm.n;
  gemm_.Run(gemm, stream());
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

// Whether the rows of a and of b, read with a delay, are runs of the same length: then nothing has
// to be gathered. Padded rows must be zero in a, since b has the rows of other steps there.
bool StageEnqueuer::CanShift(const Stage& stage) const {
  const Operand& a = stage.inputs[0];
  const Operand& b = stage.inputs[1];
  return stage.domain == Domain::kStep && a.delay == 0 && b.delay > 0 && !b.adjoint &&
         buffer(a.view).domain == Domain::kStep && LiesEvenly(b) &&
         (!shape_.ragged || zero_padded_[static_cast<size_t>(a.view.buffer)]) &&
         (b.init.buffer < 0 || buffer(b.init).domain == Domain::kBatch);
}

void StageEnqueuer::EnqueueOuter(const Stage& stage) {
  if (stage.domain == Domain::kStep && rows() == 0) return ZeroOutput(stage);
  if (stage.domain == Domain::kBatch && shape_.batch == 0) return ZeroOutput(stage);
  if (CanShift(stage)) return EnqueueShiftedOuter(stage);
  const RowRange range =
      stage.domain == Domain::kStep ? RowRange{0, shape_.steps, shape_.ragged} : RowRange{};
  const int64_t count = stage.domain == Domain::kStep    ? rows()
                        : stage.domain == Domain::kBatch ? shape_.batch
                                                         : 1;
  const auto rows_of = [&](size_t i) {
    const Operand& operand = stage.inputs[i];
    const Buffer& source = buffer(operand.view);
    if (MustGather(stage, i, false)) return Gathered(operand, range, i);
    return Rows{Address(operand.view, 0), source.width, source.dtype};
  };
  SumOuterProducts(stage, rows_of(0), rows_of(1), count, false);
}

void StageEnqueuer::EnqueueShiftedOuter(const Stage& stage) {
  const Operand& a = stage.inputs[0];
  const Operand& b = stage.inputs[1];
  const Buffer& from_a = buffer(a.view);
  const Buffer& from_b = buffer(b.view);
  const bool forward = b.direction == Direction::kForward;
  const int64_t delay = std::min<int64_t>(b.delay, shape_.steps);
  const int64_t shift = delay * shape_.batch;
  const Rows rows_a{Address(a.view, forward ? shift : 0), from_a.width, from_a.dtype};
  const Rows rows_b{Address(b.view, forward ? 0 : shift), from_b.width, from_b.dtype};
  bool accumulate = false;
  if (rows() > shift) {
    SumOuterProducts(stage, rows_a, rows_b, rows() - shift, false);
    accumulate = true;
  }
  for (int64_t i = 0; i < delay && b.init.buffer >= 0; ++i) {
    const int64_t t = forward ? i : shape_.steps - 1 - i;
    const Rows at_start{Address(a.view, t * shape_.batch), from_a.width, from_a.dtype};
    SumOuterProducts(stage, at_start, RowsAt(b, t), shape_.batch, accumulate);
    accumulate = true;
  }
  if (!accumulate) ZeroOutput(stage);
}

// c [m, n] = a' b, for each head.
void StageEnqueuer::SumOuterProducts(const Stage& stage, const Rows& a, const Rows& b,
                                     int64_t count, bool accumulate) {
  Gemm gemm;
  gemm.batches = std::max<int64_t>(1, stage.attributes.size);
  gemm.m = stage.inputs[0].view.width / gemm.batches;
  gemm.n = stage.inputs[1].view.width / gemm.batches;
  gemm.k = count;
  gemm.a = {a.data, a.stride, gemm.m, a.dtype, true};
  gemm.b = {b.data, b.stride, gemm.n, b.dtype, false};
  gemm.accumulate = accumulate;
  gemm.c = Address(stage.outputs[0], 0);
  gemm.c_stride = gemm.n;
  gemm.c_batch_stride = gemm.m * gemm.n;
  gemm.fp32 = graph_.precision == Precision::kTf32 ? Fp32Product::kTf32 : Fp32Product::kIeee;
  gemm_.Run(gemm, stream());
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
