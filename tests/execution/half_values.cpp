#include "execution/half_values.h"

#include <list>

#include "base/half_numbers.h"
#include "plan/named_views.h"

namespace turbolstm {
namespace {

std::vector<uint16_t> Bits(const std::vector<double>& values, DType dtype) {
  const std::vector<float> narrow(values.begin(), values.end());
  std::vector<uint16_t> bits(values.size());
  RoundToHalf(narrow, dtype, bits);
  return bits;
}

std::vector<float> Numbers(std::span<const uint16_t> bits, DType dtype) {
  std::vector<float> values(bits.size());
  WidenHalf(bits, dtype, values);
  return values;
}

}  // namespace

void RoundStepInputs(const Graph& graph, Precision precision, Bindings* bindings) {
  const DType dtype = OperandType(precision);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const bool step = node.op == Op::kInput && node.domain == Domain::kStep;
    if (!step || node.type != ValueType::kFloat) continue;
    std::vector<double>& values = bindings->values.at(node.name).data;
    const std::vector<float> rounded = Numbers(Bits(values, dtype), dtype);
    values.assign(rounded.begin(), rounded.end());
  }
}

Outputs RunAndReadHalf(Execution* execution, const Bindings& bindings) {
  const LoweredGraph& lowered = execution->lowered();
  const std::vector<int32_t> lengths(bindings.lengths.begin(), bindings.lengths.end());
  execution->SetShape(bindings.steps, bindings.batch, lengths, bindings.resets);
  std::list<std::vector<float>> wide;
  std::list<std::vector<uint16_t>> half;
  for (const auto& [name, array] : bindings.values) {
    const DType kept = TypeOf(lowered, InputNamed(lowered, name, false));
    if (kept == DType::kFloat32) {
      wide.emplace_back(array.data.begin(), array.data.end());
      execution->Bind(name, wide.back());
    } else {
      half.push_back(Bits(array.data, kept));
      execution->BindHalf(name, half.back());
    }
  }
  for (const auto& [name, array] : bindings.indices) execution->BindIndices(name, array.data);
  execution->Run({bindings.training, bindings.seed, bindings.training_step});
  Outputs outputs;
  for (const NamedView& output : lowered.outputs) {
    const DType kept = TypeOf(lowered, output);
    if (kept == DType::kFloat32) {
      const std::span<const float> values = execution->Output(output.name);
      outputs[output.name] = {values.begin(), values.end()};
    } else {
      outputs[output.name] = Numbers(execution->HalfOutput(output.name), kept);
    }
  }
  return outputs;
}

}  // namespace turbolstm
