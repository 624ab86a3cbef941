#include "execution/executable_cuda.h"

#include <algorithm>

#include "backend/cuda/check_cuda.h"
#include "base/error.h"
#include "execution/device_lowering.h"
#include "plan/named_views.h"

namespace turbolstm {

std::unique_ptr<Execution> MakeCudaExecution(Graph graph, const DeviceOptions& options) {
  return std::make_unique<cuda::CudaExecutable>(std::move(graph), options);
}

namespace cuda {
namespace {

// Ragged batches whose longest sequences differ by less share a recorded graph.
constexpr int64_t kStepsBucket = 8;

// What compiles and allocates for a device does so for the current one.
LoweredGraph LowerOn(int device, Graph graph, Precision precision) {
  UseDevice(device);
  return LowerForDevice(std::move(graph), precision);
}

int64_t RoundedUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

DeviceShape ShapeOf(const RowLayout& layout, bool resets) {
  DeviceShape shape{layout.steps(), layout.batch(), !layout.dense(), resets};
  if (shape.ragged) shape.steps = RoundedUp(layout.length(0), kStepsBucket);
  return shape;
}

}  // namespace

CudaExecutable::CudaExecutable(Graph graph, const DeviceOptions& options)
    : lowered_(LowerOn(options.index, std::move(graph), options.precision)),
      memory_(lowered_),
      enqueuer_(lowered_, memory_, options.split),
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
  bool moved = memory_.Resize(shape_.steps, shape_.batch, stream_);
  moved |= enqueuer_.Resize(shape_, stream_);
  const int64_t places = 2 * static_cast<int64_t>(sizeof(int32_t));
  const int64_t bytes = shape_.batch * (places + (shape_.resets ? shape_.steps : 0));
  moved |= GrowBuffer(&sequences_, bytes, "lengths and resets", stream_);
  return moved;
}

const NamedView& CudaExecutable::InputOf(std::string_view name) const {
  return *std::find_if(lowered_.inputs.begin(), lowered_.inputs.end(),
                       [&](const NamedView& input) { return input.name == name; });
}

void CudaExecutable::BindBytes(std::string_view name, const std::byte* data, int64_t elements,
                               bool index) {
  CheckElements(InputNamed(lowered_, name, index), elements, layout_.steps(), layout_.batch());
  CheckHostMemory(data, fmt::format("'{}'", name));
  bound_.insert_or_assign(std::string(name), Bound{data, elements});
}

void CudaExecutable::Bind(std::string_view name, std::span<const float> values) {
  BindBytes(name, reinterpret_cast<const std::byte*>(values.data()), std::ssize(values), false);
}

void CudaExecutable::BindIndices(std::string_view name, std::span<const int32_t> indices) {
  BindBytes(name, reinterpret_cast<const std::byte*>(indices.data()), std::ssize(indices), true);
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

int64_t CudaExecutable::UploadBytes(const NamedView& input) const {
  return ElementsOf(input, shape_.steps, shape_.batch) * int64_t{sizeof(float)};
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
    if (bound_.find(input.name)->second.changed) bytes += RoundedUp(UploadBytes(input), 64);
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
    if (bound.changed) UploadInput(input, bound.data);
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
    resets[i] = t < layout_.steps() && layout_.is_reset(t, i % batch) ? 1 : 0;
  }
  Send(sequences_.data(), staged, bytes);
  sequences_changed_ = false;
}

void CudaExecutable::UploadInput(const NamedView& input, const std::byte* from) {
  const int64_t bytes = UploadBytes(input);
  std::byte* const staged = Staged(bytes);
  if (input.domain == Domain::kStatic || !shape_.ragged) {
    std::copy_n(from, bytes, staged);
  } else {
    const size_t row = static_cast<size_t>(input.view.width) * sizeof(float);
    std::fill_n(staged, bytes, std::byte{0});
    ForEachValidRow(layout_, input.domain, [&](int64_t t, int64_t place, int64_t theirs) {
      std::copy_n(from + static_cast<size_t>(theirs) * row, row,
                  staged + static_cast<size_t>(t * shape_.batch + place) * row);
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
  if (!recorded_[shape_]) RecordShape();
  recorded_[shape_].Launch(stream_);
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
  CheckIndices();
}

void CudaExecutable::CheckIndices() {
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

const NamedView& CudaExecutable::OutputNamed(std::string_view name) const {
  for (const NamedView& output : lowered_.outputs) {
    if (output.name == name) return output;
  }
  Fail("[output] the graph has no output '{}'", name);
}

float* CudaExecutable::Parameter(std::string_view name) {
  return reinterpret_cast<float*>(AddressOf(InputNamed(lowered_, name, false)));
}

float* CudaExecutable::DeviceOutput(std::string_view name) {
  return reinterpret_cast<float*>(AddressOf(OutputNamed(name)));
}

void CudaExecutable::ReadParameter(std::string_view name, std::span<float> values) {
  TL_CUDA_CHECK(cudaMemcpyAsync(values.data(), Parameter(name), values.size_bytes(),
                                cudaMemcpyDeviceToHost, stream_.get()));
  stream_.Synchronize();
}

std::span<const float> CudaExecutable::Output(std::string_view name) {
  const NamedView& output = OutputNamed(name);
  TL_CHECK(has_results_, "[output] '{}' is asked for before a run of this shape", name);
  CheckIndices();
  std::vector<float>& values = outputs_[output.name];
  values.assign(static_cast<size_t>(ElementsOf(output, layout_.steps(), layout_.batch())), 0.0f);
  const int64_t bytes = UploadBytes(output);
  if (bytes == 0) return values;
  std::vector<float> rows;
  const bool packed = output.domain != Domain::kStatic && shape_.ragged;
  if (packed) rows.resize(static_cast<size_t>(bytes) / sizeof(float));
  TL_CUDA_CHECK(cudaMemcpyAsync(packed ? rows.data() : values.data(), AddressOf(output),
                                static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream_.get()));
  stream_.Synchronize();
  if (packed) {
    ForEachValidRow(layout_, output.domain, [&](int64_t t, int64_t place, int64_t theirs) {
      std::copy_n(rows.begin() + (t * shape_.batch + place) * output.view.width, output.view.width,
                  values.begin() + theirs * output.view.width);
    });
  }
  return values;
}

int64_t CudaExecutable::memory_bytes() const {
  return memory_.bytes() + enqueuer_.bytes() +
         static_cast<int64_t>(sequences_.size() + state_.size());
}

}  // namespace cuda
}  // namespace turbolstm
