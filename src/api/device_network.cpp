#include "turbolstm/device_network.h"

#include <algorithm>
#include <mutex>

#include "api/network_graph.h"
#include "base/error.h"
#include "execution/lent_execution.h"
#include "kernels/cell_kernels.h"
#include "plan/named_views.h"

namespace turbolstm {
namespace {

NumberType TypeNamed(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return NumberType::kFloat32;
    case DType::kBFloat16:
      return NumberType::kBFloat16;
    case DType::kFloat16:
      return NumberType::kFloat16;
    default:
      Fail("[network] a value is {}, wants numbers", Name(dtype));
  }
}

LentShape Lent(const DeviceNetworkShape& shape) {
  return {shape.steps, shape.batch, shape.ragged, shape.resets};
}

}  // namespace

struct DeviceNetwork::Compiled {
  std::unique_ptr<LentExecution> execution;
  std::vector<DeviceValueInfo> inputs, outputs;
  std::mutex turn;

  LentPass PassOf(const DevicePass& pass) const;
};

DeviceNetwork::DeviceNetwork(const RecurrentSpec& spec, const DeviceCompileOptions& options)
    : compiled_(std::make_unique<Compiled>()) {
  static std::once_flag once;
  std::call_once(once, RegisterCellKernels);
  NetworkGraph network = BuildNetwork(spec, options.gradients, options.cotangents);
  DeviceOptions device;
  device.index = options.device;
  device.precision = PrecisionNamed(options.precision);
  device.boundary = options.narrow_io ? BoundaryType::kOperand : BoundaryType::kFloat32;
  compiled_->execution =
      MakeCudaLentExecution(std::move(network.graph), device, network.late_inputs);
  const LoweredGraph& lowered = compiled_->execution->lowered();
  for (const NamedView& value : lowered.inputs) {
    const bool late =
        std::ranges::find(network.late_inputs, value.name) != network.late_inputs.end();
    compiled_->inputs.push_back({InfoOf(value), TypeNamed(TypeOf(lowered, value)), late, false});
  }
  for (size_t i = 0; i < lowered.outputs.size(); ++i) {
    const NamedView& value = lowered.outputs[i];
    compiled_->outputs.push_back({InfoOf(value), TypeNamed(TypeOf(lowered, value)),
                                  compiled_->execution->late_outputs()[i],
                                  compiled_->execution->reread_outputs()[i]});
  }
}

DeviceNetwork::~DeviceNetwork() = default;

const std::vector<DeviceValueInfo>& DeviceNetwork::inputs() const {
  return compiled_->inputs;
}
const std::vector<DeviceValueInfo>& DeviceNetwork::outputs() const {
  return compiled_->outputs;
}

DeviceMemoryNeeds DeviceNetwork::MemoryNeeds(const DeviceNetworkShape& shape) const {
  TL_CHECK(shape.steps >= 0 && shape.batch >= 0,
           "[network] got {} steps of {} sequences, wants neither negative", shape.steps,
           shape.batch);
  const std::lock_guard turn(compiled_->turn);
  const LentBytes bytes = compiled_->execution->Bytes(Lent(shape));
  return {bytes.shared, bytes.early, bytes.late};
}

LentPass DeviceNetwork::Compiled::PassOf(const DevicePass& pass) const {
  TL_CHECK(pass.inputs.size() == inputs.size() && pass.outputs.size() == outputs.size(),
           "[network] got {} inputs and {} outputs, wants {} and {}", pass.inputs.size(),
           pass.outputs.size(), inputs.size(), outputs.size());
  TL_CHECK((pass.lengths != nullptr) == pass.shape.ragged || pass.shape.batch == 0,
           "[network] lengths are given for a ragged shape only, and always there");
  LentPass lent;
  lent.shape = Lent(pass.shape);
  lent.stream = pass.stream;
  lent.shared = static_cast<std::byte*>(pass.kept);
  lent.own = static_cast<std::byte*>(pass.scratch);
  lent.inputs = {reinterpret_cast<std::byte* const*>(pass.inputs.data()), pass.inputs.size()};
  lent.outputs = {reinterpret_cast<std::byte* const*>(pass.outputs.data()), pass.outputs.size()};
  lent.lengths = pass.lengths;
  lent.resets = pass.resets;
  lent.numbers = pass.numbers;
  return lent;
}

void DeviceNetwork::Forward(const DevicePass& pass) const {
  const std::lock_guard turn(compiled_->turn);
  compiled_->execution->Early(compiled_->PassOf(pass));
}

void DeviceNetwork::Backward(const DevicePass& pass) const {
  const std::lock_guard turn(compiled_->turn);
  compiled_->execution->Late(compiled_->PassOf(pass));
}

}  // namespace turbolstm
