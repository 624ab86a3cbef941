#include "harness/gpu_trace.h"

#include <cupti.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <mutex>

#include "backend/cuda/shared_library_cuda.h"
#include "base/error.h"
#include "harness/gpu_measure.h"

namespace turbolstm::bench {
namespace {

constexpr std::initializer_list<const char*> kCuptiNames = {"libcupti.so.13", "libcupti.so.12",
                                                            "libcupti.so"};
constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
                                         CUPTI_ACTIVITY_KIND_SYNCHRONIZATION};
constexpr size_t kBufferBytes = size_t{8} << 20;
constexpr size_t kBufferAlignment = 8;

std::mutex activities_mutex;
std::vector<Activity> activities_now;
decltype(&cuptiActivityGetNextRecord) next_record = nullptr;

void CUPTIAPI GiveBuffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer ? kBufferBytes : 0;
  *most_records = 0;
}

template <typename Record>
Activity DeviceActivity(Activity::Kind kind, std::string name, const CUpti_Activity* record) {
  const auto& r = *reinterpret_cast<const Record*>(record);
  return {.kind = kind,
          .name = std::move(name),
          .start = static_cast<int64_t>(r.start),
          .end = static_cast<int64_t>(r.end),
          .stream = r.streamId,
          .launch = r.correlationId,
          .replayed = r.graphNodeId != 0};
}

std::string NameOfWait(CUpti_ActivitySynchronizationType type) {
  switch (type) {
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE:
      return "wait for an event";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE:
      return "wait for a stream";
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE:
      return "wait for the device";
    default:
      return "";  // no wait of the host
  }
}

void Note(const CUpti_Activity* record) {
  switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const char* const name = reinterpret_cast<const CUpti_ActivityKernel10*>(record)->name;
      activities_now.push_back(DeviceActivity<CUpti_ActivityKernel10>(
          Activity::Kind::kKernel, ShortName(name ? name : "kernel"), record));
      return;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      activities_now.push_back(
          DeviceActivity<CUpti_ActivityMemcpy6>(Activity::Kind::kCopy, "copy", record));
      return;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      activities_now.push_back(
          DeviceActivity<CUpti_ActivityMemset4>(Activity::Kind::kFill, "fill", record));
      return;
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: {
      const auto& r = *reinterpret_cast<const CUpti_ActivitySynchronization2*>(record);
      const std::string name = NameOfWait(r.type);
      if (name.empty()) return;
      activities_now.push_back({.kind = Activity::Kind::kWait,
                                .name = name,
                                .start = static_cast<int64_t>(r.start),
                                .end = static_cast<int64_t>(r.end),
                                .stream = 0,
                                .launch = r.correlationId});
      return;
    }
    default:
      return;
  }
}

void CUPTIAPI TakeBuffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  const std::lock_guard lock(activities_mutex);
  CUpti_Activity* record = nullptr;
  while (valid > 0 && next_record(buffer, valid, &record) == CUPTI_SUCCESS) Note(record);
  std::free(buffer);
}

}  // namespace

class GpuTrace::Library {
 public:
  Library() : library_(kCuptiNames) {
    library_.Load(next_record, "cuptiActivityGetNextRecord");
    library_.Load(enable_, "cuptiActivityEnable");
    library_.Load(disable_, "cuptiActivityDisable");
    library_.Load(flush_, "cuptiActivityFlushAll");
    library_.Load(text_, "cuptiGetResultString");
    decltype(&cuptiActivityRegisterCallbacks) listen = nullptr;
    library_.Load(listen, "cuptiActivityRegisterCallbacks");
    Check(listen(GiveBuffer, TakeBuffer), "cuptiActivityRegisterCallbacks");
    for (const CUpti_ActivityKind kind : kKinds) Check(enable_(kind), "cuptiActivityEnable");
  }

  ~Library() {
    for (const CUpti_ActivityKind kind : kKinds) disable_(kind);
    flush_(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  }

  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void Flush() const { Check(flush_(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll"); }

 private:
  void Check(CUptiResult result, const char* call) const {
    if (result == CUPTI_SUCCESS) return;
    const char* text = nullptr;
    text_(result, &text);
    Fail("[cupti] {}: {}", call, text ? text : "unknown error");
  }

  cuda::SharedLibrary library_;
  decltype(&cuptiActivityEnable) enable_ = nullptr;
  decltype(&cuptiActivityDisable) disable_ = nullptr;
  decltype(&cuptiActivityFlushAll) flush_ = nullptr;
  decltype(&cuptiGetResultString) text_ = nullptr;
};

GpuTrace::GpuTrace() : library_(std::make_unique<Library>()) {}
GpuTrace::~GpuTrace() = default;

std::vector<Activity> GpuTrace::Take() {
  library_->Flush();
  const std::lock_guard lock(activities_mutex);
  std::vector<Activity> taken = std::move(activities_now);
  activities_now.clear();
  std::ranges::stable_sort(taken, {}, &Activity::start);
  return taken;
}

}  // namespace turbolstm::bench
