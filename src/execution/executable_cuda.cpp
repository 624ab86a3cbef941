#include "execution/executable_cuda.h"

#include <algorithm>

#include "backend/cuda/check_cuda.h"
#include "base/error.h"
#include "base/half_numbers.h"
#include "execution/device_lowering.h"
#include "graph/walk.h"
#include "plan/named_views.h"

namespace turbolstm {
namespace cuda {
namespace {

static_assert(kFromZeros == kResetToZero);

// Ragged batches whose longest sequences differ by less share a recorded graph.
constexpr int64_t kStepsBucket = 8;

// What compiles and allocates for a device does so for the current one.
LoweredGraph LowerOn(Graph graph, const DeviceOptions& options) {
  UseDevice(options.index);
  return LowerForDevice(std::move(graph), options.precision, options.boundary, options.recompute);
}

int64_t RoundedUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Numbers of one type, or fp32 rounded to 16 bits.
void Copy(const std::byte* from, DType from_type, std::byte* to, DType to_type, int64_t elements) {
  const auto count = static_cast<size_t>(elements);
  if (from_type == to_type) {
    std::copy_n(from, count * SizeOf(to_type), to);
  } else {
    RoundToHalf({reinterpret_cast<const float*>(from), count}, to_type,
                {reinterpret_cast<uint16_t*>(to), count});
  }
}

DeviceShape ShapeOf(const RowLayout& layout, bool resets) {
  DeviceShape shape{layout.steps(), layout.batch(), !layout.dense(), resets};
  if (shape.ragged) shape.steps = RoundedUp(layout.length(0), kStepsBucket);
  return shape;
}

}  // namespace

CudaExecutable::CudaExecutable(Graph graph, const DeviceOptions& options)
    : lowered_(LowerOn(std::move(graph), options)),
      memory_(lowered_),
      enqueuer_(lowered_, memory_, options),
      state_(sizeof(DeviceState), "the state of a run") {
  state_.Clear();
  SetShape(0, 0);
}

CudaExecutable::~CudaExecutable() {
  cudaStreamSynchronize(stream_.get());
}

void CudaExecutable::SetShape(int64_t steps, int64_t batch, std::span<const int32_t> lengths,
                              std::span<const uint8_t> resets) {
  CheckHostMemory(lengths.data(), "lengths");
  CheckHostMemory(resets.data(), "resets");
  RowLayout layout(steps, batch, lengths, resets);
  const DeviceShape shape = ShapeOf(layout, !resets.empty());
  // Errors until here change nothing.
  has_results_ = false;
  layout_ = std::move(layout);
  sequences_changed_ = true;
  if (has_memory_ && shape == shape_) return;
  has_memory_ = false;
  shape_ = shape;
  try {
    if (MakeRoom()) recorded_.clear();
  } catch (...) {
    recorded_.clear();  // some of what they work in is gone
    throw;
  }
  for (auto& [name, bound] : bound_) {
    if (InputOf(name).domain != Domain::kStatic) bound.changed = true;
  }
  has_memory_ = true;
}

// True when memory that recorded graphs work in has moved. The last run may still be on its way; it
// is waited for only where memory is given back.
bool CudaExecutable::MakeRoom() {
  enqueuer_.SetShape(shape_);
  const DeviceSchedule* const schedule = enqueuer_.schedule();
  bool moved = schedule ? memory_.Resize(shape_.steps, shape_.batch, *schedule,
                                         enqueuer_.state_bytes(), stream_.get())
                        : memory_.Resize(shape_.steps, shape_.batch, stream_.get());
  moved |= enqueuer_.MakeRoom(stream_.get());
  const int64_t places = 2 * static_cast<int64_t>(sizeof(int32_t));
  const int64_t bytes = shape_.batch * (places + (shape_.resets ? shape_.steps : 0));
  moved |= GrowBuffer(&sequences_, bytes, "lengths and resets", stream_.get());
  return moved;
}

const NamedView& CudaExecutable::InputOf(std::string_view name) const {
  return *std::find_if(lowered_.inputs.begin(), lowered_.inputs.end(),
                       [&](const NamedView& input) { return input.name == name; });
}

void CudaExecutable::BindBytes(std::string_view name, const std::byte* data, int64_t elements,
                               DType dtype) {
  const NamedView& input = InputNamed(lowered_, name, dtype == DType::kInt32);
  CheckElements(input, elements, layout_.steps(), layout_.batch());
  CheckHostMemory(data, fmt::format("'{}'", name));
  bound_.insert_or_assign(std::string(name), Bound{data, elements, dtype});
}

void CudaExecutable::Bind(std::string_view name, std::span<const float> values) {
  BindBytes(name, reinterpret_cast<const std::byte*>(values.data()), std::ssize(values),
            DType::kFloat32);
}

void CudaExecutable::BindHalf(std::string_view name, std::span<const uint16_t> bits) {
  const DType kept = TypeOf(lowered_, InputNamed(lowered_, name, false));
  if (kept == DType::kFloat32) return Execution::BindHalf(name, bits);
  BindBytes(name, reinterpret_cast<const std::byte*>(bits.data()), std::ssize(bits), kept);
}

void CudaExecutable::BindIndices(std::string_view name, std::span<const int32_t> indices) {
  BindBytes(name, reinterpret_cast<const std::byte*>(indices.data()), std::ssize(indices),
            DType::kInt32);
}

void CudaExecutable::ParametersChanged() {
  for (auto& [name, bound] : bound_) {
    if (InputOf(name).domain == Domain::kStatic) bound.changed = true;
  }
}

// --- To the device.

void CudaExecutable::CheckBound() const {
  for (const NamedView& input : lowered_.inputs) {
    const auto bound = bound_.find(input.name);
    TL_CHECK(bound != bound_.end(), "[run] '{}' is not bound", input.name);
    const int64_t wanted = ElementsOf(input, layout_.steps(), layout_.batch());
    TL_CHECK(bound->second.elements == wanted,
             "[run] '{}' was bound with {} elements, the shape wants {}", input.name,
             bound->second.elements, wanted);
  }
}

int64_t CudaExecutable::DeviceBytes(const NamedView& value) const {
  return ElementsOf(value, shape_.steps, shape_.batch) *
         static_cast<int64_t>(SizeOf(TypeOf(lowered_, value)));
}

std::byte* CudaExecutable::Staged(int64_t bytes) {
  std::byte* const place = staging_.data() + staged_;
  staged_ += RoundedUp(bytes, 64);
  return place;
}

void CudaExecutable::Send(std::byte* to, const std::byte* staged, int64_t bytes) {
  if (bytes == 0) return;
  TL_CUDA_CHECK(cudaMemcpyAsync(to, staged, static_cast<size_t>(bytes), cudaMemcpyHostToDevice,
                                stream_.get()));
}

void CudaExecutable::UploadAll(const RunOptions& options) {
  int64_t bytes = RoundedUp(int64_t{sizeof(RunState)}, 64);
  if (sequences_changed_) bytes += RoundedUp(static_cast<int64_t>(sequences_.size()), 64);
  for (const NamedView& input : lowered_.inputs) {
    if (bound_.find(input.name)->second.changed) bytes += RoundedUp(DeviceBytes(input), 64);
  }
  uploaded_.Synchronize();  // the last run's, before what it read is overwritten
  if (static_cast<int64_t>(staging_.size()) < bytes) {
    staging_ = PinnedBuffer();
    staging_ = PinnedBuffer(static_cast<size_t>(bytes), "inputs on their way to the device");
  }
  staged_ = 0;
  auto* const state_on_host = reinterpret_cast<RunState*>(Staged(int64_t{sizeof(RunState)}));
  *state_on_host = {{options.seed, options.training_step, options.training ? 1 : 0},
                    {static_cast<float>(layout_.rows()), static_cast<float>(layout_.batch())}};
  Send(state_.data(), reinterpret_cast<const std::byte*>(state_on_host), int64_t{sizeof(RunState)});
  if (sequences_changed_) UploadSequences();
  for (const NamedView& input : lowered_.inputs) {
    Bound& bound = bound_.find(input.name)->second;
    if (bound.changed) UploadInput(input, bound);
    bound.changed = false;
  }
  uploaded_.Record(stream_);
}

void CudaExecutable::UploadSequences() {
  const int64_t batch = shape_.batch;
  const auto bytes = static_cast<int64_t>(sequences_.size());
  std::byte* const staged = Staged(bytes);
  auto* const lengths = reinterpret_cast<int32_t*>(staged);
  auto* const numbers = lengths + batch;
  auto* const resets = reinterpret_cast<uint8_t*>(numbers + batch);
  for (int64_t b = 0; b < batch; ++b) {
    lengths[b] = static_cast<int32_t>(layout_.length(b));
    numbers[b] = static_cast<int32_t>(layout_.sequence(b));
  }
  for (int64_t i = 0; shape_.resets && i < shape_.steps * batch; ++i) {
    const int64_t t = i / batch;
    resets[i] = t < layout_.steps() ? layout_.reset(t, i % batch) : uint8_t{0};
  }
  Send(sequences_.data(), staged, bytes);
  sequences_changed_ = false;
}

void CudaExecutable::UploadInput(const NamedView& input, const Bound& bound) {
  const DType kept = TypeOf(lowered_, input);
  const int64_t bytes = DeviceBytes(input);
  std::byte* const staged = Staged(bytes);
  const size_t their_size = SizeOf(bound.dtype), our_size = SizeOf(kept);
  const auto copy = [&](int64_t theirs, int64_t ours, int64_t elements) {
    Copy(bound.data + static_cast<size_t>(theirs) * their_size, bound.dtype,
         staged + static_cast<size_t>(ours) * our_size, kept, elements);
  };
  if (input.domain == Domain::kStatic || !shape_.ragged) {
    copy(0, 0, bound.elements);
  } else {
    const int64_t width = input.view.width;
    std::fill_n(staged, bytes, std::byte{0});
    ForEachValidRow(layout_, input.domain, [&](int64_t t, int64_t place, int64_t theirs) {
      copy(theirs * width, (t * shape_.batch + place) * width, width);
    });
  }
  Send(AddressOf(input), staged, bytes);
}

// --- Running.

OperatorContext CudaExecutable::Context() const {
  const auto* const lengths = reinterpret_cast<const int*>(sequences_.data());
  OperatorContext context;
  context.sequences.steps = shape_.steps;
  context.sequences.batch = shape_.batch;
  context.sequences.lengths = shape_.ragged ? lengths : nullptr;
  context.sequences.numbers = lengths + shape_.batch;
  if (shape_.resets) {
    context.sequences.resets = reinterpret_cast<const unsigned char*>(lengths + 2 * shape_.batch);
  }
  context.run = &state()->run.numbers;
  context.fault = &state()->fault;
  context.stream = stream_.get();
  return context;
}

void CudaExecutable::EnqueueRun() {
  enqueuer_.Enqueue(Context(), state()->run.row_counts);
  for (const auto& enqueue : appended_) enqueue(stream_.get());
}

void CudaExecutable::Run(const RunOptions& options) {
  has_results_ = false;
  TL_CHECK(has_memory_, "[run] SetShape found no memory for {} steps of {} sequences",
           layout_.steps(), layout_.batch());
  CheckBound();
  UploadAll(options);
  if (recorded_.count(shape_) == 0) RecordShape();
  recorded_.at(shape_).Launch(stream_);
  has_results_ = true;
}

// A second time when products have outgrown their workspace, so that only the largest is kept.
void CudaExecutable::RecordShape() {
  const auto record = [this] { return RecordedGraph::Record(stream_, [this] { EnqueueRun(); }); };
  recorded_[shape_] = record();
  if (!enqueuer_.has_outgrown()) return;
  stream_.Synchronize();
  recorded_.clear();
  enqueuer_.DropOutgrown();
  recorded_[shape_] = record();
}

void CudaExecutable::AppendToRun(std::function<void(cudaStream_t)> enqueue) {
  recorded_.clear();
  appended_.push_back(std::move(enqueue));
}

size_t CudaExecutable::recorded_nodes() const {
  const auto recorded = recorded_.find(shape_);
  return recorded == recorded_.end() ? 0 : recorded->second.nodes();
}

void CudaExecutable::Synchronize() {
  IndexFault fault;
  TL_CUDA_CHECK(cudaMemcpyAsync(&fault, &state()->fault, sizeof(fault), cudaMemcpyDeviceToHost,
                                stream_.get()));
  stream_.Synchronize();
  if (fault.found == 0) return;
  has_results_ = false;
  TL_CUDA_CHECK(cudaMemsetAsync(&state()->fault, 0, sizeof(fault), stream_.get()));
  FailIndex(fault);
}

void CudaExecutable::FailIndex(const IndexFault& fault) const {
  TL_CHECK(fault.found > 0, "[execution] a block of a persistent kernel waited in vain for others");
  int32_t stage = fault.found - 1;
  for (const Group& group : lowered_.groups) {
    const auto stages = static_cast<int32_t>(group.stages.size());
    if (stage < stages) {
      const Stage& found = group.stages[static_cast<size_t>(stage)];
      Fail("[{}] index {} is outside its table (step {}, sequence {})", found.name, fault.index,
           fault.time, fault.sequence);
    }
    stage -= stages;
  }
  Fail("[execution] index {} is outside its table", fault.index);
}

// --- From the device.

std::byte* CudaExecutable::AddressOf(const NamedView& value) const {
  const Buffer& buffer = lowered_.buffers[static_cast<size_t>(value.view.buffer)];
  return memory_.base(value.view.buffer) +
         value.view.column * static_cast<int64_t>(SizeOf(buffer.dtype));
}

float* CudaExecutable::Parameter(std::string_view name) {
  return reinterpret_cast<float*>(AddressOf(InputNamed(lowered_, name, false)));
}

float* CudaExecutable::DeviceOutput(std::string_view name) {
  const NamedView& output = OutputNamed(lowered_, name);
  const DType kept = TypeOf(lowered_, output);
  TL_CHECK(kept == DType::kFloat32, "[output] '{}' is {} on the device, float32 was asked for",
           name, Name(kept));
  return reinterpret_cast<float*>(AddressOf(output));
}

void CudaExecutable::ReadParameter(std::string_view name, std::span<float> values) {
  TL_CUDA_CHECK(cudaMemcpyAsync(values.data(), Parameter(name), values.size_bytes(),
                                cudaMemcpyDeviceToHost, stream_.get()));
  stream_.Synchronize();
}

// to: in the caller's layout, of the type that the device keeps.
void CudaExecutable::Fetch(const NamedView& output, std::byte* to) {
  TL_CHECK(has_results_, "[output] '{}' is asked for before a run of this shape", output.name);
  Synchronize();
  const size_t row = static_cast<size_t>(output.view.width) * SizeOf(TypeOf(lowered_, output));
  const auto bytes = static_cast<size_t>(DeviceBytes(output));
  if (bytes == 0) return;
  std::vector<std::byte> rows;
  const bool packed = output.domain != Domain::kStatic && shape_.ragged;
  if (packed) rows.resize(bytes);
  TL_CUDA_CHECK(cudaMemcpyAsync(packed ? rows.data() : to, AddressOf(output), bytes,
                                cudaMemcpyDeviceToHost, stream_.get()));
  stream_.Synchronize();
  if (!packed) return;
  ForEachValidRow(layout_, output.domain, [&](int64_t t, int64_t place, int64_t theirs) {
    std::copy_n(rows.data() + static_cast<size_t>(t * shape_.batch + place) * row, row,
                to + static_cast<size_t>(theirs) * row);
  });
}

std::span<const float> CudaExecutable::Output(std::string_view name) {
  const NamedView& output = OutputNamed(lowered_, name);
  const DType kept = TypeOf(lowered_, output);
  const auto elements = static_cast<size_t>(ElementsOf(output, layout_.steps(), layout_.batch()));
  std::vector<float>& values = outputs_[output.name];
  values.assign(elements, 0.0f);
  if (kept == DType::kFloat32) {
    Fetch(output, reinterpret_cast<std::byte*>(values.data()));
  } else {
    WidenHalf(HalfOutput(name), kept, values);
  }
  return values;
}

std::span<const uint16_t> CudaExecutable::HalfOutput(std::string_view name) {
  const NamedView& output = OutputNamed(lowered_, name);
  if (TypeOf(lowered_, output) == DType::kFloat32) return Execution::HalfOutput(name);
  std::vector<uint16_t>& bits = half_outputs_[output.name];
  bits.assign(static_cast<size_t>(ElementsOf(output, layout_.steps(), layout_.batch())), 0);
  Fetch(output, reinterpret_cast<std::byte*>(bits.data()));
  return bits;
}

int64_t CudaExecutable::memory_bytes() const {
  return memory_.bytes() + enqueuer_.bytes() +
         static_cast<int64_t>(sequences_.size() + state_.size());
}

}  // namespace cuda

std::unique_ptr<Execution> MakeCudaExecution(Graph graph, const DeviceOptions& options) {
  return std::make_unique<cuda::CudaExecutable>(std::move(graph), options);
}

}  // namespace turbolstm
