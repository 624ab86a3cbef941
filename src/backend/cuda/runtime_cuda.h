#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

namespace turbolstm::cuda {

// Makes a device the calling thread's. Throws Error naming the device when there is no such one, or
// no driver.
void UseDevice(int device);

// Which work goes first where several streams have some that could begin.
enum class Urgency : uint8_t { kLow, kMedium, kHigh };

// A queue of work, not synchronised with the default stream.
class Stream {
 public:
  explicit Stream(Urgency urgency = Urgency::kLow);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  void Synchronize() const;

 private:
  cudaStream_t stream_ = nullptr;
};

// A point in a stream, with the time at which it was reached.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void Record(const Stream& stream) { Record(stream.get()); }
  void Record(cudaStream_t stream);
  void Synchronize() const;
  // Lets what is put on a stream from now on wait until this point is reached.
  void HoldBack(cudaStream_t stream) const;
  // Milliseconds from this event to a later one; both must have been reached.
  float MillisecondsTo(const Event& later) const;

 private:
  cudaEvent_t event_ = nullptr;
};

// A second queue beside a stream, from one point of it to another.
class SideStream {
 public:
  cudaStream_t get() const { return side_.get(); }
  // What is put on this queue from now on waits for what is on the stream now.
  void Fork(cudaStream_t stream);
  // What is put on the stream from now on waits for what is on this queue now.
  void Join(cudaStream_t stream);

 private:
  Stream side_;
  Event forked_, joined_;
};

// A variable of the environment: a byte, 0 to 255, that new device memory is filled with, for
// finding out what is read before it was written. Not set: memory stays as it comes.
inline constexpr const char* kFillMemoryVariable = "TURBOLSTM_FILL_MEMORY";

// Error naming `what` when the memory is a device's, which the host cannot read.
void CheckHostMemory(const void* data, std::string_view what);

// Memory of the current device.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // Contents are undefined unless kFillMemoryVariable is set. Error naming `what` and the bytes
  // asked for when there is not enough.
  DeviceBuffer(size_t bytes, std::string_view what);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Fills all of it with zeros, and waits until that is done.
  void Clear();

 private:
  void Fill(int byte);

  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Makes room for so many bytes where there is less, so that a buffer settles at the most it was
// asked for; true if it moved, and its contents are undefined then. Work on the stream may use the
// memory: it is waited for before any is given back.
bool GrowBuffer(DeviceBuffer* buffer, int64_t bytes, std::string_view what, cudaStream_t stream);

// Memory of the host that a device copies from and to without a detour.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(size_t bytes, std::string_view what);
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Work recorded once and launched as a whole.
class RecordedGraph {
 public:
  RecordedGraph() = default;
  ~RecordedGraph();
  RecordedGraph(RecordedGraph&& other) noexcept;
  RecordedGraph& operator=(RecordedGraph&& other) noexcept;

  // Records what `enqueue` puts on the stream; nothing runs. Whatever it throws passes through and
  // leaves the stream usable.
  static RecordedGraph Record(const Stream& stream, const std::function<void()>& enqueue);

  explicit operator bool() const { return graph_ != nullptr; }
  size_t nodes() const { return nodes_; }
  void Launch(const Stream& stream) const;

 private:
  cudaGraphExec_t graph_ = nullptr;
  size_t nodes_ = 0;
};

}  // namespace turbolstm::cuda
