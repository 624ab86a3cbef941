#include "baselines/cudnn_network.h"

#include <array>
#include <cmath>
#include <vector>

namespace turbolstm::bench {
namespace {

cudnnRNNMode_t ModeOf(const std::string& cell) {
  if (cell == "lstm") return CUDNN_LSTM;
  if (cell == "gru") return CUDNN_GRU;
  TL_CHECK(cell == "rnn_tanh", "[cudnn] cell {} is none of lstm, gru, rnn_tanh", cell);
  return CUDNN_RNN_TANH;
}

std::unique_ptr<GpuBuffer> Buffer(size_t bytes) {
  return std::make_unique<GpuBuffer>(bytes);
}

}  // namespace

CudnnContext::CudnnContext() {
  TL_BENCH_CUDA(cudaStreamCreate(&stream_));
  TL_BENCH_CUDNN(cudnnCreate(&handle_));
  TL_BENCH_CUDNN(cudnnSetStream(handle_, stream_));
}

CudnnContext::~CudnnContext() {
  cudnnDestroy(handle_);
  cudaStreamDestroy(stream_);
}

CudnnPrecision CudnnPrecisionNamed(const std::string& name) {
  if (name == "fp32") return {GpuType::kFloat, CUDNN_DATA_FLOAT, CUDNN_FMA_MATH};
  if (name == "tf32") return {GpuType::kFloat, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH};
  if (name == "bf16") return {GpuType::kBfloat16, CUDNN_DATA_BFLOAT16, CUDNN_TENSOR_OP_MATH};
  TL_CHECK(name == "fp16", "[cudnn] precision {} is none of fp32, tf32, bf16, fp16", name);
  return {GpuType::kHalf, CUDNN_DATA_HALF, CUDNN_TENSOR_OP_MATH};
}

CudnnDescriptors::CudnnDescriptors() {
  TL_BENCH_CUDNN(cudnnCreateDropoutDescriptor(&dropout));
  TL_BENCH_CUDNN(cudnnCreateRNNDescriptor(&rnn));
  TL_BENCH_CUDNN(cudnnCreateRNNDataDescriptor(&x));
  TL_BENCH_CUDNN(cudnnCreateRNNDataDescriptor(&y));
  TL_BENCH_CUDNN(cudnnCreateTensorDescriptor(&state));
}

CudnnDescriptors::~CudnnDescriptors() {
  cudnnDestroyTensorDescriptor(state);
  cudnnDestroyRNNDataDescriptor(y);
  cudnnDestroyRNNDataDescriptor(x);
  cudnnDestroyRNNDescriptor(rnn);
  cudnnDestroyDropoutDescriptor(dropout);
}

CudnnNetwork::CudnnNetwork(const CudnnContext& context, const Case& c,
                           const CudnnPrecision& precision, cudnnRNNAlgo_t algorithm, bool training)
    : context_(context), precision_(precision), training_(training), ragged_(c.uniform_lengths) {
  Describe(c, algorithm);
  Allocate(c);
}

void CudnnNetwork::Describe(const Case& c, cudnnRNNAlgo_t algorithm) {
  const auto [T, B, I, H] = std::array{static_cast<int>(c.T), static_cast<int>(c.B),
                                       static_cast<int>(c.I), static_cast<int>(c.H)};
  const int directions = static_cast<int>(c.directions());
  const int layers = static_cast<int>(c.L);
  const CudnnDescriptors& d = descriptors_;
  TL_BENCH_CUDNN(cudnnSetDropoutDescriptor(d.dropout, context_.handle(), 0, nullptr, 0, 0));
  TL_BENCH_CUDNN(cudnnSetRNNDescriptor_v8(
      d.rnn, algorithm, ModeOf(c.cell), CUDNN_RNN_DOUBLE_BIAS,
      c.bidirectional ? CUDNN_BIDIRECTIONAL : CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT,
      precision_.data, CUDNN_DATA_FLOAT, precision_.math, I, H, H, layers, d.dropout,
      c.uniform_lengths ? CUDNN_RNN_PADDED_IO_ENABLED : CUDNN_RNN_PADDED_IO_DISABLED));
  if (algorithm == CUDNN_RNN_ALGO_PERSIST_DYNAMIC) {
    TL_BENCH_CUDNN(cudnnBuildRNNDynamic(context_.handle(), d.rnn, B));
  }
  const std::vector<int64_t> wide = c.Lengths();
  const std::vector<int> lengths(wide.begin(), wide.end());
  float padding = 0;
  for (const auto& [desc, width] : {std::pair{d.x, I}, std::pair{d.y, directions * H}}) {
    TL_BENCH_CUDNN(cudnnSetRNNDataDescriptor(desc, precision_.data,
                                             CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, T, B, width,
                                             lengths.data(), &padding));
  }
  const std::array sizes = {layers * directions, B, H};
  const std::array strides = {B * H, H, 1};
  TL_BENCH_CUDNN(
      cudnnSetTensorNdDescriptor(d.state, precision_.data, 3, sizes.data(), strides.data()));
  lengths_ = Buffer(lengths.size() * sizeof(int));
  TL_BENCH_CUDA(
      cudaMemcpy(lengths_->data(), lengths.data(), lengths_->bytes(), cudaMemcpyHostToDevice));
}

void CudnnNetwork::Allocate(const Case& c) {
  size_t weights = 0, workspace = 0, reserve = 0;
  TL_BENCH_CUDNN(cudnnGetRNNWeightSpaceSize(context_.handle(), descriptors_.rnn, &weights));
  TL_BENCH_CUDNN(
      cudnnGetRNNTempSpaceSizes(context_.handle(), descriptors_.rnn,
                                training_ ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE,
                                descriptors_.x, &workspace, &reserve));
  const size_t element = BytesOf(precision_.type);
  const auto inputs = static_cast<size_t>(c.T * c.B * c.I);
  const auto outputs = static_cast<size_t>(c.T * c.B * c.H * c.directions());
  x_ = Buffer(inputs * element);
  y_ = Buffer(outputs * element);
  weights_ = Buffer(weights);
  workspace_ = Buffer(workspace);
  reserve_ = Buffer(reserve);
  dx_ = Buffer(training_ ? x_->bytes() : 0);
  dy_ = Buffer(training_ ? y_->bytes() : 0);
  weight_gradients_ = Buffer(training_ ? weights : 0);
  const float deviation = 1 / std::sqrt(static_cast<float>(c.H));
  const auto fill = [&](const GpuBuffer& buffer, float scale, uint64_t seed) {
    TL_BENCH_CUDA(FillNormal(buffer.data(), buffer.bytes() / element, precision_.type, scale, seed,
                             context_.stream()));
  };
  fill(*x_, 1, 1);
  fill(*weights_, deviation, 2);
  if (training_) fill(*dy_, 0.1f, 3);
}

void CudnnNetwork::Forward() {
  const CudnnDescriptors& d = descriptors_;
  TL_BENCH_CUDNN(cudnnRNNForward(
      context_.handle(), d.rnn, training_ ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE,
      static_cast<const int32_t*>(lengths_->data()), d.x, x_->data(), d.y, y_->data(), d.state,
      nullptr, nullptr, d.state, nullptr, nullptr, weights_->bytes(), weights_->data(),
      workspace_->bytes(), workspace_->data(), reserve_->bytes(), reserve_->data()));
}

void CudnnNetwork::BackwardData() {
  const CudnnDescriptors& d = descriptors_;
  TL_BENCH_CUDNN(cudnnRNNBackwardData_v8(
      context_.handle(), d.rnn, static_cast<const int32_t*>(lengths_->data()), d.y, y_->data(),
      dy_->data(), d.x, dx_->data(), d.state, nullptr, nullptr, nullptr, d.state, nullptr, nullptr,
      nullptr, weights_->bytes(), weights_->data(), workspace_->bytes(), workspace_->data(),
      reserve_->bytes(), reserve_->data()));
}

void CudnnNetwork::BackwardWeights() {
  const CudnnDescriptors& d = descriptors_;
  TL_BENCH_CUDNN(cudnnRNNBackwardWeights_v8(
      context_.handle(), d.rnn, CUDNN_WGRAD_MODE_ADD, static_cast<const int32_t*>(lengths_->data()),
      d.x, x_->data(), d.state, nullptr, d.y, y_->data(), weight_gradients_->bytes(),
      weight_gradients_->data(), workspace_->bytes(), workspace_->data(), reserve_->bytes(),
      reserve_->data()));
}

void CudnnNetwork::ClearWeightGradients() {
  TL_BENCH_CUDA(
      cudaMemsetAsync(weight_gradients_->data(), 0, weight_gradients_->bytes(), context_.stream()));
}

void CudnnNetwork::CheckOutputs() {
  constexpr int kNotANumber = 0xff;  // in every byte: not a number in all three types
  std::vector<std::pair<const char*, const GpuBuffer*>> outputs = {{"y", y_.get()}};
  if (training_) {
    outputs.emplace_back("gradient of the weights", weight_gradients_.get());
    if (!ragged_) outputs.emplace_back("gradient of x", dx_.get());  // padding may stay unwritten
  }
  for (const auto& [name, buffer] : outputs) {
    TL_BENCH_CUDA(cudaMemsetAsync(buffer->data(), kNotANumber, buffer->bytes(), context_.stream()));
  }
  Forward();
  if (training_) {
    ClearWeightGradients();
    BackwardData();
    BackwardWeights();
  }
  const GpuBuffer counter(sizeof(unsigned long long));
  auto* count = static_cast<unsigned long long*>(counter.data());
  for (const auto& [name, buffer] : outputs) {
    unsigned long long bad = 0;
    TL_BENCH_CUDA(cudaMemsetAsync(count, 0, counter.bytes(), context_.stream()));
    TL_BENCH_CUDA(CountNotFinite(buffer->data(), buffer->bytes() / BytesOf(precision_.type),
                                 precision_.type, count, context_.stream()));
    TL_BENCH_CUDA(
        cudaMemcpyAsync(&bad, count, sizeof(bad), cudaMemcpyDeviceToHost, context_.stream()));
    TL_BENCH_CUDA(cudaStreamSynchronize(context_.stream()));
    TL_CHECK(bad == 0, "[cudnn] {}: {} elements were not written or are not finite", name, bad);
  }
}

size_t CudnnNetwork::output_bytes() const {
  return y_->bytes() + dx_->bytes() + weight_gradients_->bytes();
}

size_t CudnnNetwork::total_bytes() const {
  return x_->bytes() + dy_->bytes() + weights_->bytes() + output_bytes() + workspace_bytes() +
         reserve_bytes();
}

}  // namespace turbolstm::bench
