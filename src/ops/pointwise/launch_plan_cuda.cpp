#include "ops/pointwise/launch_plan_cuda.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

#include "base/error.h"
#include "ops/pointwise/device_code_cuda.h"

namespace turbolstm::cuda {
namespace {

constexpr int64_t kMaxGridY = 65535;  // and of z
// Counts that plain kernels keep in 32 bits, with room for a stride beyond.
constexpr int64_t kMaxPlain = int64_t{1} << 30;
// From here on four elements a thread are faster than one, as measured on an H200: later where most
// operands are 4 bytes wide, since a thread's arithmetic takes longer than its loads there.
constexpr int64_t kElementsForWidePacks = int64_t{1} << 17;
constexpr int64_t kElementsForNarrowPacks = int64_t{1} << 12;
// Below, smaller blocks spread over more multiprocessors.
constexpr int64_t kElementsForFullBlocks = int64_t{1} << 14;

// The bytes below are the fields one after the other.
static_assert(sizeof(GeneralArgs<3, 2>) ==
              sizeof(GeneralHead) + 3 * sizeof(RowOperand) + 2 * sizeof(RowOutput));
static_assert(sizeof(TimeLoopArgs<4, 2>) == sizeof(GeneralArgs<4, 2>) + 4 * sizeof(int));
static_assert(sizeof(PlainArgs<4, 2>) ==
              sizeof(PlainHead) + 6 * sizeof(PlainRow) + 4 * sizeof(int));

class Bytes {
 public:
  template <typename T>
  void Append(const T& value) {
    const size_t end = bytes_.size();
    bytes_.resize(end + sizeof(T));
    std::memcpy(bytes_.data() + end, &value, sizeof(T));
  }
  std::vector<std::byte> Take(size_t alignment) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    return std::move(bytes_);
  }

 private:
  std::vector<std::byte> bytes_;
};

// Arrays of no inputs have one element.
template <typename T>
void AppendInputs(const std::vector<T>& inputs, Bytes* bytes) {
  for (const T& input : inputs) bytes->Append(input);
  if (inputs.empty()) bytes->Append(T{});
}

int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// Blocks are as wide as rows, up to their number of threads, so that neighbours share cache lines.
void SetShape(int64_t columns, int64_t rows, int64_t steps, LaunchPlan* plan) {
  const bool full = columns * rows * steps >= kElementsForFullBlocks;
  const int64_t threads = full ? int64_t{kBlockThreads} : int64_t{kBlockThreads} / 2;
  const auto power = [](int64_t count, int64_t limit) {
    return count >= limit ? limit
                          : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)));
  };
  const int64_t x = power(columns, threads);
  const int64_t y = power(rows, threads / x);
  plan->block = {static_cast<unsigned>(x), static_cast<unsigned>(y), 1};
  plan->grid = {static_cast<unsigned>(
                    std::min<int64_t>(CeilDiv(columns, x), std::numeric_limits<int32_t>::max())),
                static_cast<unsigned>(std::min(CeilDiv(rows, y), kMaxGridY)),
                static_cast<unsigned>(std::min(steps, kMaxGridY))};
}

// A run all of whose rows lie at fixed distances.
class PlainPlan {
 public:
  PlainPlan(const TypedProgram& typed, const PointwiseRun& run)
      : typed_(typed), run_(run), steps_(run.range.steps), batch_(run.sequences.batch), n_(run.n) {}

  // Nothing if some operand needs a general kernel.
  std::optional<LaunchPlan> Make() {
    if (!FitsSmallCounts() || !AddInputs() || !AddOutputs()) return std::nullopt;
    Flatten();
    LaunchPlan plan;
    const bool packs = n_ % 4 == 0 && n_ * batch_ * steps_ >= ElementsForPacks() && Aligned();
    plan.variant = packs ? KernelVariant::kPlain4 : KernelVariant::kPlain;
    SetShape(packs ? n_ / 4 : n_, batch_, steps_, &plan);
    Bytes bytes;
    bytes.Append(PlainHead{Lengths(), static_cast<int>(run_.range.time_begin),
                           static_cast<int>(steps_), static_cast<int>(batch_),
                           static_cast<int>(n_)});
    AppendInputs(inputs_, &bytes);
    for (const PlainRow& output : outputs_) bytes.Append(output);
    AppendInputs(beyond_, &bytes);
    plan.arguments = bytes.Take(alignof(PlainRow));
    return plan;
  }

 private:
  const int* Lengths() const { return run_.range.padded ? run_.sequences.lengths : nullptr; }

  bool FitsSmallCounts() const {
    return steps_ <= kMaxPlain && batch_ <= kMaxPlain && steps_ * batch_ <= kMaxPlain &&
           n_ <= kMaxPlain && run_.range.time_begin + steps_ <= kMaxPlain;
  }

  bool SharedByRows(size_t i) const {
    const InputKind kind = typed_.program.inputs[i];
    return kind == InputKind::kRowVector || kind == InputKind::kScalar;
  }

  bool AddInputs() {
    for (size_t i = 0; i < run_.inputs.size(); ++i) {
      const RowOperand& x = run_.inputs[i];
      beyond_.push_back(kAlwaysThere);
      const bool added = SharedByRows(i) ? AddInput(x.data, 0, 0)
                         : x.delay == 0  ? AddRows(x, 0)
                                         : AddDelayed(x);
      if (!added) return false;
    }
    return true;
  }

  bool AddInput(const char* data, int64_t row_bytes, int64_t step_rows) {
    return Add(const_cast<char*>(data), row_bytes, step_rows, &inputs_);
  }

  static bool Add(char* data, int64_t row_bytes, int64_t step_rows, std::vector<PlainRow>* rows) {
    if (!data || std::abs(row_bytes) > std::numeric_limits<int32_t>::max()) return false;
    rows->push_back({data, static_cast<int>(row_bytes), static_cast<int>(step_rows)});
    return true;
  }

  // The steps of a value begin at `shift` from those of the run.
  bool AddRows(const RowOperand& x, int64_t shift) {
    const auto step = FirstStep(x.kind, x.period, shift);
    if (!step || !x.data) return false;
    return AddInput(x.data + *step * batch_ * x.row_bytes,
                    x.kind == RowKind::kShared ? 0 : x.row_bytes,
                    x.kind == RowKind::kStep ? batch_ : 0);
  }

  // Nothing if the steps are not one behind the other in memory.
  std::optional<int64_t> FirstStep(RowKind kind, int64_t period, int64_t shift) const {
    if (kind != RowKind::kStep) return 0;
    const int64_t first = (run_.range.time_begin + shift) % period;
    if (first + steps_ > period) return std::nullopt;
    return first;
  }

  bool AddDelayed(const RowOperand& x) {
    if (run_.sequences.resets) return false;
    const bool forward = (x.direction > 0) != x.adjoint;
    return forward != x.adjoint ? AddBehind(x) : AddAhead(x);
  }

  // What is read lies at an earlier time.
  bool AddBehind(const RowOperand& x) {
    const int64_t begin = run_.range.time_begin;
    if (begin >= x.delay) return AddRows(x, -x.delay);
    if (x.adjoint || steps_ != 1) return false;
    return x.init && AddInput(x.init + begin * x.init_step_bytes, x.init_row_bytes, 0);
  }

  // What is read lies at a later time, as long as the sequence goes on there.
  bool AddAhead(const RowOperand& x) {
    if (run_.range.time_begin + steps_ - 1 + x.delay >= run_.sequences.steps) return false;
    if (run_.sequences.lengths) {
      if (!run_.range.padded || (!x.adjoint && x.init)) return false;
      beyond_.back() = x.delay;
    }
    return AddRows(x, x.delay);
  }

  bool AddOutputs() {
    for (const RowOutput& y : run_.outputs) {
      const auto step = FirstStep(y.kind, y.period, 0);
      if (!step) return false;
      const int64_t row_bytes = y.kind == RowKind::kShared ? 0 : y.row_bytes;
      if (!Add(y.data + *step * batch_ * row_bytes, row_bytes,
               y.kind == RowKind::kStep ? batch_ : 0, &outputs_)) {
        return false;
      }
    }
    return true;
  }

  // Without padding all steps are one, and rows without gaps are one long row.
  void Flatten() {
    if (Lengths()) return;
    const auto rows_in_line = [&](const std::vector<PlainRow>& rows) {
      return std::all_of(rows.begin(), rows.end(), [&](const PlainRow& row) {
        return row.row_bytes == 0 || row.step_rows == batch_;
      });
    };
    if (steps_ > 1 && rows_in_line(inputs_) && rows_in_line(outputs_)) {
      batch_ *= steps_;
      steps_ = 1;
    }
    if (steps_ == 1 && batch_ > 1 && n_ * batch_ <= kMaxPlain && WithoutGaps()) {
      n_ *= batch_;
      batch_ = 1;
    }
  }

  bool WithoutGaps() const {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const InputKind kind = typed_.program.inputs[i];
      if (kind == InputKind::kScalar) continue;
      if (kind != InputKind::kElement || inputs_[i].row_bytes != RowBytes(typed_.inputs[i])) {
        return false;
      }
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i].row_bytes != RowBytes(typed_.outputs[i])) return false;
    }
    return true;
  }

  int64_t RowBytes(DType dtype) const { return n_ * static_cast<int64_t>(SizeOf(dtype)); }

  int64_t ElementsForPacks() const {
    const auto wide = [](const std::vector<DType>& dtypes) {
      return std::count(dtypes.begin(), dtypes.end(), DType::kFloat32);
    };
    const auto all = static_cast<int64_t>(typed_.inputs.size() + typed_.outputs.size());
    return 2 * (wide(typed_.inputs) + wide(typed_.outputs)) > all ? kElementsForWidePacks
                                                                  : kElementsForNarrowPacks;
  }

  // Whether packs of four elements begin at multiples of their size.
  bool Aligned() const {
    const auto aligned = [](const PlainRow& row, DType dtype) {
      const uintptr_t pack = 4 * SizeOf(dtype);
      return reinterpret_cast<uintptr_t>(row.data) % pack == 0 &&
             static_cast<uint64_t>(std::abs(int64_t{row.row_bytes})) % pack == 0;
    };
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const InputKind kind = typed_.program.inputs[i];
      if (kind == InputKind::kColumn || kind == InputKind::kScalar) continue;
      if (!aligned(inputs_[i], typed_.inputs[i])) return false;
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!aligned(outputs_[i], typed_.outputs[i])) return false;
    }
    return true;
  }

  const TypedProgram& typed_;
  const PointwiseRun& run_;
  int64_t steps_, batch_, n_;
  std::vector<PlainRow> inputs_, outputs_;
  std::vector<int> beyond_;
};

LaunchPlan PlanLookedUp(const PointwiseRun& run, int64_t parallel_steps, bool lean,
                        const std::vector<int>& carried) {
  LaunchPlan plan;
  SetShape(run.n, run.sequences.batch, parallel_steps, &plan);
  Bytes bytes;
  bytes.Append(GeneralHead{run.sequences, run.range, run.n, run.reverse, lean});
  AppendInputs(std::vector<RowOperand>(run.inputs.begin(), run.inputs.end()), &bytes);
  for (const RowOutput& output : run.outputs) bytes.Append(output);
  for (int output : carried) bytes.Append(output);
  plan.arguments = bytes.Take(alignof(RowOperand));
  return plan;
}

LaunchPlan PlanGeneral(const PointwiseRun& run) {
  return PlanLookedUp(run, run.range.steps, false, {});
}

// Whether a delayed operand reads at each step of a loop what an output was `delay` steps before.
bool IsCarried(const RowOperand& x, const RowOutput& y, const PointwiseRun& run) {
  const bool forward = (x.direction > 0) != x.adjoint;
  const bool reads_earlier = forward != x.adjoint;
  return x.delay > 0 && reads_earlier != run.reverse && x.kind == RowKind::kStep &&
         y.kind == RowKind::kStep && x.data == y.data && x.row_bytes == y.row_bytes &&
         x.period == y.period && x.dtype == y.dtype;
}

// Whether a loop over time can run as a parallel prefix: over all steps, and of what is not the
// same for all rows it reads the state, and rows of the same step that are all there.
bool CanScan(const TypedProgram& typed, const PointwiseRun& run) {
  if (typed.scan_input < 0) return false;
  const auto state = static_cast<size_t>(typed.scan_input);
  const RowOutput& result = run.outputs[static_cast<size_t>(typed.scan_output)];
  if (!IsCarried(run.inputs[state], result, run) || run.range.time_begin != 0 ||
      run.range.steps != run.sequences.steps) {
    return false;
  }
  for (size_t i = 0; i < run.inputs.size(); ++i) {
    const RowOperand& x = run.inputs[i];
    const InputKind kind = typed.program.inputs[i];
    if (i == state || kind == InputKind::kRowVector || kind == InputKind::kScalar) continue;
    const bool ring = x.kind == RowKind::kStep && x.period < run.range.steps;
    if (!x.data || x.delay > 0 || ring) return false;
  }
  return true;
}

// Where the elements do not fill the device, and each has many steps.
constexpr int64_t kMostScanElements = int64_t{1} << 14;
constexpr int64_t kFewestScanSteps = 64;
// Steps of a part at least: below, parts take longer to meet than to run.
constexpr int64_t kStepsOfPart = 4;
constexpr int64_t kManyBlocks = 512;

std::optional<LaunchPlan> PlanScan(const TypedProgram& typed, const PointwiseRun& run) {
  if (!CanScan(typed, run)) return std::nullopt;
  const int64_t delay = run.inputs[static_cast<size_t>(typed.scan_input)].delay;
  const int64_t elements = run.n * run.sequences.batch * delay;
  const int64_t steps = CeilDiv(run.range.steps, delay);
  if (elements > kMostScanElements || steps < kFewestScanSteps) return std::nullopt;
  int64_t x = 32;  // neighbours share cache lines
  while (x > 8 && CeilDiv(elements, x) < kManyBlocks) x /= 2;
  const auto parts =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(CeilDiv(steps, kStepsOfPart))));
  LaunchPlan plan =
      PlanLookedUp(run, 1, false, std::vector<int>(std::max<size_t>(run.inputs.size(), 1), -1));
  plan.variant = KernelVariant::kPlain;
  plan.block = {static_cast<unsigned>(x), static_cast<unsigned>(std::min(parts, kScanThreads / x)),
                1};
  plan.grid = {static_cast<unsigned>(CeilDiv(elements, x)), 1, 1};
  return plan;
}

LaunchPlan PlanTimeLoop(const TypedProgram& typed, const PointwiseRun& run) {
  if (auto scan = PlanScan(typed, run)) return *std::move(scan);
  bool lean = true;
  std::vector<int> carried;
  for (size_t i = 0; i < run.inputs.size(); ++i) {
    carried.push_back(-1);
    const InputKind kind = typed.program.inputs[i];
    if (kind == InputKind::kRowVector || kind == InputKind::kScalar) continue;
    if (run.inputs[i].delay == 0) continue;
    for (size_t k = 0; k < run.outputs.size(); ++k) {
      const bool before = run.inputs[i].delay == 1;
      if (before && IsCarried(run.inputs[i], run.outputs[k], run)) {
        carried.back() = static_cast<int>(k);
      }
    }
    lean = lean && kind == InputKind::kElement && carried.back() >= 0;
  }
  if (carried.empty()) carried.push_back(-1);
  return PlanLookedUp(run, 1, lean, carried);
}

template <typename Rows>
void CheckRows(const Rows& rows, const std::vector<DType>& dtypes, std::string_view what) {
  TL_CHECK(rows.size() == dtypes.size(), "[pointwise] got {} {}s, wants {}", rows.size(), what,
           dtypes.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    TL_CHECK(rows[i].dtype == static_cast<signed char>(dtypes[i]),
             "[pointwise] {} {} is {}, wants {}", what, i, Name(static_cast<DType>(rows[i].dtype)),
             Name(dtypes[i]));
  }
}

}  // namespace

LaunchPlan PlanLaunch(const TypedProgram& typed, const PointwiseRun& run) {
  CheckRows(run.inputs, typed.inputs, "input");
  CheckRows(run.outputs, typed.outputs, "output");
  if (typed.time_loop) return PlanTimeLoop(typed, run);
  if (auto plain = PlainPlan(typed, run).Make()) return *std::move(plain);
  return PlanGeneral(run);
}

}  // namespace turbolstm::cuda
