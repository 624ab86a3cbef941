#include "optim/update_cuda.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/check_cuda.h"
#include "base/error.h"
#include "optim/update_kernels_cuda.h"

namespace turbolstm::cuda {
namespace {

UpdateRule RuleOf(std::string_view name, const UpdateOptions& options) {
  UpdateRule rule;
  rule.adaptive = name != "sgd";
  rule.decoupled = name == "adamw";
  rule.nesterov = options.optimizer.nesterov;
  rule.momentum = options.optimizer.momentum;
  rule.weight_decay = options.optimizer.weight_decay;
  rule.beta1 = options.optimizer.beta1;
  rule.beta2 = options.optimizer.beta2;
  rule.epsilon = options.optimizer.epsilon;
  rule.clip_norm = options.clip_norm;
  return rule;
}

// The host's rule, for its checks and the names of what it keeps.
std::unique_ptr<Optimizer> OnHost(std::string_view rule, const OptimizerOptions& options) {
  return MakeOptimizer(rule, {{"", {}, {}}}, options);
}

}  // namespace

DeviceOptimizer::DeviceOptimizer(std::string_view rule, std::vector<DeviceParameter> parameters,
                                 const UpdateOptions& options)
    : rule_(rule),
      parameters_(std::move(parameters)),
      options_(options),
      state_(sizeof(UpdateState), "the state of an optimiser"),
      reports_(kUpdateReports * sizeof(UpdateReport), "reports of an optimiser") {
  TL_CHECK(options.clip_norm >= 0, "[optimizer] clip_norm is {}, wants at least 0",
           options.clip_norm);
  for (const OptimizerState& slot : OnHost(rule, options.optimizer)->State()) {
    slot_names_.push_back(slot.name);  // ".exp_avg"
  }
  PlaceSlots();
  MakeChunks();
  UpdateState state;
  state.learning_rate = options_.optimizer.learning_rate;
  TL_CUDA_CHECK(cudaMemcpy(state_.data(), &state, sizeof(state), cudaMemcpyHostToDevice));
  std::fill_n(reinterpret_cast<UpdateReport*>(reports_.data()), kUpdateReports, UpdateReport{});
}

void DeviceOptimizer::PlaceSlots() {
  for (const DeviceParameter& parameter : parameters_) {
    offsets_.push_back(elements_);
    elements_ += parameter.size;
  }
  const size_t bytes = slot_names_.size() * static_cast<size_t>(elements_) * sizeof(float);
  slots_ = DeviceBuffer(bytes, "what an optimiser keeps of each weight");
  slots_.Clear();
}

float* DeviceOptimizer::SlotOf(size_t slot, size_t parameter) const {
  return reinterpret_cast<float*>(slots_.data()) + static_cast<int64_t>(slot) * elements_ +
         offsets_[parameter];
}

void DeviceOptimizer::MakeChunks() {
  std::vector<UpdateChunk> chunks;
  for (size_t p = 0; p < parameters_.size(); ++p) {
    if (p % kParametersOfALaunch == 0)
      launches_.push_back({p, 0, static_cast<int>(chunks.size()), 0});
    Launch& launch = launches_.back();
    ++launch.parameters;
    for (int64_t first = 0; first < parameters_[p].size; first += kElementsOfAChunk) {
      UpdateChunk chunk;
      chunk.weight = parameters_[p].weight + first;
      for (size_t slot = 0; slot < slot_names_.size(); ++slot) {
        chunk.slots[slot] = SlotOf(slot, p) + first;
      }
      chunk.first = first;
      chunk.count =
          static_cast<int32_t>(std::min<int64_t>(kElementsOfAChunk, parameters_[p].size - first));
      chunk.parameter = static_cast<int32_t>(p % kParametersOfALaunch);
      chunks.push_back(chunk);
      ++launch.chunks;
    }
  }
  chunk_count_ = static_cast<int>(chunks.size());
  chunks_ = DeviceBuffer(chunks.size() * sizeof(UpdateChunk), "parts of parameters");
  if (!chunks.empty()) {
    TL_CUDA_CHECK(
        cudaMemcpy(chunks_.data(), chunks.data(), chunks_.size(), cudaMemcpyHostToDevice));
  }
  sums_ = DeviceBuffer(chunks.size() * sizeof(double), "sums of squares");
}

void DeviceOptimizer::Enqueue(std::span<const float* const> gradients, const float* loss,
                              cudaStream_t stream) {
  TL_CHECK(gradients.size() == parameters_.size(),
           "[optimizer] got gradients of {} parameters, wants {}", gradients.size(),
           parameters_.size());
  const UpdateRule rule = RuleOf(rule_, options_);
  auto* const sums = reinterpret_cast<double*>(sums_.data());
  const auto list = [&](const Launch& launch) {
    GradientList of{};
    std::copy_n(gradients.begin() + static_cast<std::ptrdiff_t>(launch.first_parameter),
                launch.parameters, of.of);
    return of;
  };
  for (const Launch& launch : launches_) {
    if (!wants_norm()) break;
    LaunchSumOfSquares(chunks() + launch.first_chunk, launch.chunks, list(launch),
                       sums + launch.first_chunk, stream);
  }
  LaunchDecideUpdate(rule, sums, wants_norm() ? chunk_count_ : 0, loss, options_.loss_scale,
                     state(), reinterpret_cast<UpdateReport*>(reports_.data()), stream);
  for (const Launch& launch : launches_) {
    LaunchUpdate(rule, chunks() + launch.first_chunk, launch.chunks, list(launch), state(), stream);
  }
}

void DeviceOptimizer::set_learning_rate(double learning_rate, const Stream& stream) {
  OptimizerOptions changed = options_.optimizer;
  changed.learning_rate = learning_rate;
  OnHost(rule_, changed);
  options_.optimizer = changed;
  TL_CUDA_CHECK(cudaMemcpyAsync(&state()->learning_rate, &options_.optimizer.learning_rate,
                                sizeof(double), cudaMemcpyHostToDevice, stream.get()));
}

UpdateReport DeviceOptimizer::report(int64_t number) const {
  UpdateReport report;
  std::memcpy(&report,
              reports_.data() + static_cast<size_t>(number % kUpdateReports) * sizeof(report),
              sizeof(report));
  return report;
}

int64_t DeviceOptimizer::memory_bytes() const {
  return static_cast<int64_t>(slots_.size() + chunks_.size() + sums_.size() + state_.size());
}

int64_t DeviceOptimizer::ReadSteps(const Stream& stream) const {
  int64_t steps = 0;
  TL_CUDA_CHECK(cudaMemcpyAsync(&steps, &state()->steps, sizeof(steps), cudaMemcpyDeviceToHost,
                                stream.get()));
  stream.Synchronize();
  return steps;
}

std::vector<DeviceOptimizer::SlotValues> DeviceOptimizer::ReadSlots(const Stream& stream) const {
  std::vector<SlotValues> all;
  for (size_t p = 0; p < parameters_.size(); ++p) {
    for (size_t slot = 0; slot < slot_names_.size(); ++slot) {
      SlotValues values{parameters_[p].name + slot_names_[slot], {}};
      values.values.resize(static_cast<size_t>(parameters_[p].size));
      if (!values.values.empty()) {
        TL_CUDA_CHECK(cudaMemcpyAsync(values.values.data(), SlotOf(slot, p),
                                      values.values.size() * sizeof(float), cudaMemcpyDeviceToHost,
                                      stream.get()));
      }
      all.push_back(std::move(values));
    }
  }
  stream.Synchronize();
  return all;
}

}  // namespace turbolstm::cuda
