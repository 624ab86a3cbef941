// Products of rows with weights, and sums of outer products over rows.

#include <algorithm>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "execution/narrow_statics.h"
#include "execution/split_choice.h"
#include "execution/stage_enqueuer_cuda.h"

namespace turbolstm::cuda {

const void* StageEnqueuer::NarrowStatic(const View& view) {
  const std::vector<View>& all = memory_.narrow_statics();
  const auto found = std::find(all.begin(), all.end(), view);
  TL_CHECK(found != all.end(), "[product] a weight of {} elements has no 16-bit copy", view.width);
  const auto wanted = static_cast<size_t>(found - all.begin());
  if (!narrow_made_[wanted]) MakeNarrowStatics(wanted);
  return memory_.narrow_static(wanted);
}

// Where groups run one after the other, with all others that can be made now, in one kernel.
void StageEnqueuer::MakeNarrowStatics(size_t wanted) {
  const std::vector<View>& all = memory_.narrow_statics();
  std::vector<NarrowCopy> copies;
  for (size_t i = 0; i < all.size(); ++i) {
    const bool at_once = !schedule_ && memory_.IsNarrowAtOnce(i) && !narrow_made_[i];
    if (i != wanted && !at_once) continue;
    const NarrowRows copy = NarrowRowsOf(graph_, all[i]);
    copies.push_back({reinterpret_cast<const float*>(Address(all[i], 0)), memory_.narrow_static(i),
                      copy.rows, copy.columns, copy.stride});
    narrow_made_[i] = true;
  }
  CopyNarrow(copies, narrow_, stream());
}

StageEnqueuer::WeightRows StageEnqueuer::WeightFor(int32_t weight) {
  const PackedWeight& packed = graph_.weights[static_cast<size_t>(weight)];
  if (narrow_ == DType::kFloat32) return {Address(packed.matrix, 0), packed.features.back()};
  const NarrowRows copy = NarrowRowsOf(graph_, packed.matrix);
  TL_CHECK(copy.columns == packed.features.back(),
           "[product] a weight is read as rows of {} and of {} elements", copy.columns,
           packed.features.back());
  return {NarrowStatic(packed.matrix), copy.stride};
}

void StageEnqueuer::EnqueueProduct(const Stage& stage, const RowRange& range, bool one_step) {
  const Operand& x = stage.inputs[0];
  const View& y = stage.outputs[0];
  if (one_step || stage.domain != Domain::kStep) {
    const int64_t row = buffer(y).domain == Domain::kStep ? StepRow(y, range.time_begin) : 0;
    return Multiply(stage, RowsAt(x, range.time_begin), shape_.batch, y, Address(y, row));
  }
  const int64_t first = range.time_begin * shape_.batch;
  const Rows all = MustGather(stage, 0, false) ? Gathered(x, range, 0) : WholeRows(x.view, first);
  Multiply(stage, all, range.steps * shape_.batch, y, Address(y, first), rows());
}

StageEnqueuer::Rows StageEnqueuer::WholeRows(const View& view, int64_t first) const {
  const Buffer& source = buffer(view);
  return {Address(view, first), source.width, source.dtype, view, first};
}

// Weights [heads, m, k] are block diagonal: each head reads and writes columns of its own.
void StageEnqueuer::Multiply(const Stage& stage, const Rows& x, int64_t count, const View& y,
                             std::byte* to, int64_t like) {
  if (!x.data && stage.accumulate && stage.bias.buffer < 0) return;
  if (!x.data && !stage.accumulate && y.width == buffer(y).width) return FillRows(stage, y, to);
  const PackedWeight& weight = graph_.weights[static_cast<size_t>(stage.weight)];
  const ProductSize size = SizeOfProduct(graph_, stage, count);
  const int64_t columns = weight.features.back();
  Gemm gemm;
  gemm.batches = size.batches;
  gemm.m = size.m;
  gemm.like_m = like == size.m ? 0 : like;
  gemm.n = size.n;
  gemm.k = size.k;
  gemm.a = {x.data ? x.data : zeros_.data(), x.stride, gemm.k, x.dtype, false};
  gemm.b.stride = columns;
  gemm.b.batch_stride = gemm.n * gemm.k;
  gemm.b.dtype = narrow_;
  gemm.b.transposed = !weight.transposed;
  gemm.accumulate = stage.accumulate;
  gemm.c = to;
  gemm.c_dtype = buffer(y).dtype;
  gemm.c_stride = buffer(y).width;
  gemm.c_batch_stride = gemm.n;
  gemm.fp32 = graph_.precision == Precision::kTf32 ? Fp32Product::kTf32 : Fp32Product::kIeee;
  if (stage.bias.buffer >= 0) {
    gemm.bias = gemm.c_dtype == DType::kFloat32 ? Address(stage.bias, 0) : NarrowStatic(stage.bias);
  }
  if (x.data && IsSplitProduct(graph_, stage, std::max(count, decides_split_), split_rule_)) {
    return MultiplyPieces(gemm, stage, x);
  }
  const WeightRows rows = WeightFor(stage.weight);
  gemm.b.data = rows.data;
  gemm.b.stride = rows.stride;
  gemm.b.batch_stride = weight.features.end()[-2] * rows.stride;
  Run(gemm);
}

// What a product of zeros leaves in the rows of a step: the bias.
void StageEnqueuer::FillRows(const Stage& stage, const View& y, std::byte* to) {
  RowOperand bias;
  if (stage.bias.buffer >= 0) {
    bias.data = reinterpret_cast<const char*>(Address(stage.bias, 0));
    bias.dtype = static_cast<signed char>(DType::kFloat32);
  } else {
    bias.dtype = static_cast<signed char>(buffer(y).dtype);
  }
  GatherRows({bias, y.width}, {}, buffer(y).dtype, to, context_);
}

// The library adds a bias to single products only.
void StageEnqueuer::Run(Gemm gemm) {
  gemm.processors = product_processors_;
  if (!gemm.bias) return gemm_.Run(gemm, stream(), room_);
  const auto advance = [](auto*& pointer, int64_t elements, DType dtype) {
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(
        reinterpret_cast<uintptr_t>(pointer) + static_cast<size_t>(elements) * SizeOf(dtype));
  };
  const int64_t batches = std::exchange(gemm.batches, 1);
  for (int64_t i = 0; i < batches; ++i) {
    gemm_.Run(gemm, stream(), room_);
    advance(gemm.a.data, gemm.a.batch_stride, gemm.a.dtype);
    advance(gemm.b.data, gemm.b.batch_stride, gemm.b.dtype);
    advance(gemm.bias, gemm.n, gemm.c_dtype);
    advance(gemm.c, gemm.c_batch_stride, gemm.c_dtype);
  }
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
  gemm_.Run(gemm, stream(), room_);
}

// Whether the rows of a and of b, read with a delay, are runs of the same length: then nothing has
// to be gathered. Padded rows must be zero in a, since b has the rows of other steps there.
bool StageEnqueuer::CanShift(const Stage& stage) const {
  const Operand& a = stage.inputs[0];
  const Operand& b = stage.inputs[1];
  return stage.domain == Domain::kStep && a.delay == 0 && b.delay > 0 && !b.adjoint &&
         buffer(a.view).domain == Domain::kStep && LiesEvenly(b) &&
         (!shape_.ragged || sums_with_zero_padding_.count(&stage) > 0) &&
         (b.init.buffer < 0 || buffer(b.init).domain == Domain::kBatch);
}

void StageEnqueuer::EnqueueOuter(const Stage& stage, const RowRange& steps, bool adds) {
  if (stage.domain == Domain::kStep && rows() == 0) return ZeroOutput(stage);
  if (stage.domain == Domain::kBatch && shape_.batch == 0) return ZeroOutput(stage);
  if (CanShift(stage)) return EnqueueShiftedOuter(stage, steps, adds);
  const RowRange range = stage.domain == Domain::kStep ? steps : RowRange{};
  const int64_t first = stage.domain == Domain::kStep ? steps.time_begin * shape_.batch : 0;
  const int64_t count = stage.domain == Domain::kStep    ? steps.steps * shape_.batch
                        : stage.domain == Domain::kBatch ? shape_.batch
                                                         : 1;
  const auto rows_of = [&](size_t i) {
    const Operand& operand = stage.inputs[i];
    return MustGather(stage, i, false) ? Gathered(operand, range, i)
                                       : WholeRows(operand.view, first);
  };
  SumOuterProducts(stage, rows_of(0), rows_of(1), count, adds);
}

void StageEnqueuer::EnqueueShiftedOuter(const Stage& stage, const RowRange& steps, bool adds) {
  const Operand& a = stage.inputs[0];
  const Operand& b = stage.inputs[1];
  const bool forward = b.direction == Direction::kForward;
  const int64_t delay = std::min<int64_t>(b.delay, shape_.steps);
  const int64_t shift = (forward ? -delay : delay) * shape_.batch;
  // Steps that have a source.
  const int64_t steps_end = steps.time_begin + steps.steps;
  const int64_t begin = std::max<int64_t>(steps.time_begin, forward ? delay : 0);
  const int64_t end = std::min<int64_t>(steps_end, shape_.steps - (forward ? 0 : delay));
  bool accumulate = adds;
  if (end > begin) {
    const int64_t first = begin * shape_.batch;
    SumOuterProducts(stage, WholeRows(a.view, first), WholeRows(b.view, first + shift),
                     (end - begin) * shape_.batch, accumulate);
    accumulate = true;
  }
  for (int64_t i = 0; i < delay && b.init.buffer >= 0; ++i) {
    const int64_t t = forward ? i : shape_.steps - 1 - i;
    if (t < steps.time_begin || t >= steps_end) continue;
    SumOuterProducts(stage, WholeRows(a.view, t * shape_.batch), RowsAt(b, t), shape_.batch,
                     accumulate);
    accumulate = true;
  }
  if (!accumulate) ZeroOutput(stage);
}

// c [m, n] = a' b, for each head.
void StageEnqueuer::SumOuterProducts(const Stage& stage, const Rows& a, const Rows& b,
                                     int64_t count, bool accumulate) {
  const ProductSize size = SizeOfProduct(graph_, stage, count);
  Gemm gemm;
  gemm.batches = size.batches;
  gemm.m = size.m;
  gemm.n = size.n;
  gemm.k = size.k;
  gemm.a = {a.data, a.stride, gemm.m, a.dtype, true};
  gemm.b = {b.data, b.stride, gemm.n, b.dtype, false};
  gemm.accumulate = accumulate;
  gemm.c = Address(stage.outputs[0], 0);
  gemm.c_stride = gemm.n;
  gemm.c_batch_stride = gemm.m * gemm.n;
  gemm.fp32 = graph_.precision == Precision::kTf32 ? Fp32Product::kTf32 : Fp32Product::kIeee;
  const int64_t decides = std::max(count, decides_split_);
  if (a.data && b.data && IsSplitProduct(graph_, stage, decides, split_rule_)) {
    return SumOuterPieces(gemm, a, b);
  }
  gemm.processors = product_processors_;
  gemm_.Run(gemm, stream(), room_);
}

}  // namespace turbolstm::cuda
