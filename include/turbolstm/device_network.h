#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "turbolstm/recurrent.h"

namespace turbolstm {

struct DeviceCompileOptions {
  std::vector<std::string> gradients = {};   // see CompileOptions
  std::vector<std::string> cotangents = {};  //
  std::string precision = "fp32";            // of products: fp32, tf32, bf16, fp16 or bf16x6
  // Step values come and go in 16 bits where the precision is bf16 or fp16, else in fp32.
  bool narrow_io = false;
  int device = 0;  // among the CUDA devices
};

enum class NumberType : uint8_t { kFloat32, kBFloat16, kFloat16 };

// An input or output of a network on a device.
struct DeviceValueInfo {
  ValueInfo value;
  NumberType type = NumberType::kFloat32;
  bool late = false;    // an input or output of the backward pass
  bool reread = false;  // an output of the forward pass that the backward pass reads
};

// Every step has a row for each of `batch` sequences.
struct DeviceNetworkShape {
  int64_t steps = 0;
  int64_t batch = 0;
  bool ragged = false;  // there are lengths
  bool resets = false;  // there is a mask of resets

  auto operator<=>(const DeviceNetworkShape&) const = default;
};

// Bytes of device memory, aligned to 256, for one use of a network.
struct DeviceMemoryNeeds {
  int64_t kept = 0;  // from the forward pass to the backward pass
  int64_t forward = 0;
  int64_t backward = 0;
};

// One pass of one use. All pointers are to memory of the network's device. Step values are
// [T, B, F]; those of padded steps must be zeros, and are zeros in outputs.
struct DevicePass {
  DeviceNetworkShape shape;
  void* stream = nullptr;               // of CUDA; may be recording
  void* kept = nullptr;                 // DeviceMemoryNeeds::kept; the same in both passes
  void* scratch = nullptr;              // DeviceMemoryNeeds::forward or backward
  std::span<void* const> inputs = {};   // in the order of inputs(); in the forward pass, late ones
                                        // may be null
  std::span<void* const> outputs = {};  // in the order of outputs(); those of the other pass may be
                                        // null, but for those that are reread
  const int32_t* lengths = nullptr;     // [B], each 0..T
  const uint8_t* resets = nullptr;      // [T, B]: 0, or 2 where a sequence starts anew from zeros,
                                        // or 1: from its initial state
  const void* numbers = nullptr;  // uint64 seed, uint32 step of training, int32 1: masks are drawn;
                                  // null: masks are their mean
};

// A recurrent network on an NVIDIA GPU that works in memory of the caller's: it reads and writes
// values where they lie, enqueues on his stream, and never waits for the device. Any number of uses
// may be between their forward and their backward pass. For any number of threads, one at a time.
class DeviceNetwork {
 public:
  // Error: as RecurrentNetwork, no CUDA in this build, or no such device answers.
  explicit DeviceNetwork(const RecurrentSpec& spec, const DeviceCompileOptions& options = {});
  ~DeviceNetwork();
  DeviceNetwork(const DeviceNetwork&) = delete;
  DeviceNetwork& operator=(const DeviceNetwork&) = delete;

  const std::vector<DeviceValueInfo>& inputs() const;
  const std::vector<DeviceValueInfo>& outputs() const;

  DeviceMemoryNeeds MemoryNeeds(const DeviceNetworkShape& shape) const;
  // The first pass of a shape on a stream allocates a little memory to work in. What a recording
  // stream is given stays allocated as long as the network, which must outlive the recording.
  void Forward(const DevicePass& pass) const;
  // Once after each forward pass: it overwrites what that has kept.
  void Backward(const DevicePass& pass) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace turbolstm
