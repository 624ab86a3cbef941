#include "backend/cuda/runtime_cuda.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "backend/cuda/check_cuda.h"
#include "base/error.h"

namespace turbolstm::cuda {

void FailCuda(const char* expression, cudaError_t error) {
  cudaGetLastError();  // or a later call would report this one
  Fail("[cuda] {}: {} ({})", expression, cudaGetErrorString(error), cudaGetErrorName(error));
}

void UseDevice(int device) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    cudaGetLastError();
    Fail("[cuda] no device answers: {}", cudaGetErrorString(error));
  }
  TL_CHECK(device >= 0 && device < count, "[cuda] got device {}, wants one of 0 to {}", device,
           count - 1);
  TL_CUDA_CHECK(cudaSetDevice(device));
}

Stream::Stream(Urgency urgency) {
  int least = 0, greatest = 0;  // the lower the number, the more urgent
  TL_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  const int priority = std::max(greatest, least - static_cast<int>(urgency));
  TL_CUDA_CHECK(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority));
}

Stream::~Stream() {
  if (stream_) cudaStreamDestroy(stream_);
}

void Stream::Synchronize() const {
  TL_CUDA_CHECK(cudaStreamSynchronize(stream_));
}

Event::Event() {
  TL_CUDA_CHECK(cudaEventCreate(&event_));
}

Event::~Event() {
  if (event_) cudaEventDestroy(event_);
}

void Event::Record(cudaStream_t stream) {
  TL_CUDA_CHECK(cudaEventRecord(event_, stream));
}

void Event::Synchronize() const {
  TL_CUDA_CHECK(cudaEventSynchronize(event_));
}

void Event::HoldBack(cudaStream_t stream) const {
  TL_CUDA_CHECK(cudaStreamWaitEvent(stream, event_));
}

float Event::MillisecondsTo(const Event& later) const {
  float milliseconds = 0;
  TL_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, event_, later.event_));
  return milliseconds;
}

void SideStream::Fork(cudaStream_t stream) {
  forked_.Record(stream);
  forked_.HoldBack(side_.get());
}

void SideStream::Join(cudaStream_t stream) {
  joined_.Record(side_.get());
  joined_.HoldBack(stream);
}

void CheckHostMemory(const void* data, std::string_view what) {
  if (!data) return;
  cudaPointerAttributes attributes{};
  TL_CUDA_CHECK(cudaPointerGetAttributes(&attributes, data));
  TL_CHECK(attributes.type != cudaMemoryTypeDevice,
           "[bind] {} got memory of device {}, wants the host's", what, attributes.device);
}

DeviceBuffer::DeviceBuffer(size_t bytes, std::string_view what) : size_(bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, bytes);
  if (error != cudaSuccess) {
    cudaGetLastError();
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    Fail("[cuda] {} asked for {} bytes of device memory, {} of {} are free: {}", what, bytes, free,
         total, cudaGetErrorString(error));
  }
  data_ = static_cast<std::byte*>(data);
  const char* const fill = std::getenv(kFillMemoryVariable);
  if (fill) Fill(std::atoi(fill));
}

DeviceBuffer::~DeviceBuffer() {
  if (data_) cudaFree(data_);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

void DeviceBuffer::Clear() {
  Fill(0);
}

void DeviceBuffer::Fill(int byte) {
  if (size_ == 0) return;
  TL_CUDA_CHECK(cudaMemset(data_, byte, size_));
  TL_CUDA_CHECK(cudaStreamSynchronize(cudaStreamLegacy));  // other streams do not wait for it
}

bool GrowBuffer(DeviceBuffer* buffer, int64_t bytes, std::string_view what, cudaStream_t stream) {
  if (static_cast<int64_t>(buffer->size()) >= bytes) return false;
  if (buffer->size() > 0) TL_CUDA_CHECK(cudaStreamSynchronize(stream));
  *buffer = DeviceBuffer();  // first, or both would have to fit
  *buffer = DeviceBuffer(static_cast<size_t>(bytes), what);
  return true;
}

PinnedBuffer::PinnedBuffer(size_t bytes, std::string_view what) : size_(bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  const cudaError_t error = cudaMallocHost(&data, bytes);
  if (error != cudaSuccess) {
    cudaGetLastError();
    Fail("[cuda] {} asked for {} bytes of pinned host memory: {}", what, bytes,
         cudaGetErrorString(error));
  }
  data_ = static_cast<std::byte*>(data);
}

PinnedBuffer::~PinnedBuffer() {
  if (data_) cudaFreeHost(data_);
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

RecordedGraph::~RecordedGraph() {
  if (graph_) cudaGraphExecDestroy(graph_);
}

RecordedGraph::RecordedGraph(RecordedGraph&& other) noexcept
    : graph_(std::exchange(other.graph_, nullptr)), nodes_(std::exchange(other.nodes_, 0)) {}

RecordedGraph& RecordedGraph::operator=(RecordedGraph&& other) noexcept {
  std::swap(graph_, other.graph_);
  std::swap(nodes_, other.nodes_);
  return *this;
}

RecordedGraph RecordedGraph::Record(const Stream& stream, const std::function<void()>& enqueue) {
  TL_CUDA_CHECK(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
  cudaGraph_t recorded = nullptr;
  try {
    enqueue();
  } catch (...) {
    cudaStreamEndCapture(stream.get(), &recorded);
    if (recorded) cudaGraphDestroy(recorded);
    cudaGetLastError();
    throw;
  }
  TL_CUDA_CHECK(cudaStreamEndCapture(stream.get(), &recorded));
  RecordedGraph result;
  const cudaError_t counted = cudaGraphGetNodes(recorded, nullptr, &result.nodes_);
  const cudaError_t made =
      cudaGraphInstantiate(&result.graph_, recorded, cudaGraphInstantiateFlagUseNodePriority);
  cudaGraphDestroy(recorded);
  TL_CUDA_CHECK(counted);
  TL_CUDA_CHECK(made);
  return result;
}

void RecordedGraph::Launch(const Stream& stream) const {
  TL_CUDA_CHECK(cudaGraphLaunch(graph_, stream.get()));
}

}  // namespace turbolstm::cuda
