#include "plan/comparison.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/autodiff.h"
#include "kernels/cell_kernels.h"

namespace turbolstm {

std::string Difference(const std::string& name, const std::vector<double>& wanted,
                       const std::vector<float>& got, double tolerance) {
  if (wanted.size() != got.size()) {
    return fmt::format("{}: {} elements, wants {}\n", name, got.size(), wanted.size());
  }
  double scale = 1;
  for (const double w : wanted) scale = std::max(scale, std::abs(w));
  for (size_t i = 0; i < wanted.size(); ++i) {
    const bool close = std::abs(wanted[i] - double{got[i]}) <= tolerance * scale;
    if (!close) return fmt::format("{}[{}] is {}, wants {}\n", name, i, got[i], wanted[i]);
  }
  return "";
}

std::vector<ExecutableOptions> VerifiedPlans() {
  return {
      {.streams = 1, .verify = true},
      {.streams = 2, .verify = true},
      {.streams = 1, .time_block = 1, .row_tile = 1, .verify = true},
      {.streams = 3, .time_block = 2, .row_tile = 1, .verify = true},
      {.streams = 2, .time_block = 3, .row_tile = 2, .verify = true},
      {.streams = 2, .time_block = 1, .sum_block = 3, .verify = true},
      {.streams = 3, .schedule = ScheduleKind::kSequential, .verify = true},
      {.streams = 2, .schedule = ScheduleKind::kWholeWindow, .verify = true},
      {.streams = 3, .time_block = 1, .row_tile = 2, .verify = true, .recompute = true},
      {.streams = 1, .verify = true, .recompute = true},
  };
}

BoundBindings::BoundBindings(const Bindings& bindings, Execution* execution) {
  const std::vector<int32_t> lengths(bindings.lengths.begin(), bindings.lengths.end());
  execution->SetShape(bindings.steps, bindings.batch, lengths, bindings.resets);
  for (const auto& [name, array] : bindings.values) {
    narrow_.emplace_back(array.data.begin(), array.data.end());
    execution->Bind(name, narrow_.back());
  }
  for (const auto& [name, array] : bindings.indices) execution->BindIndices(name, array.data);
}

void RunOn(Execution* executable, const Bindings& bindings) {
  const BoundBindings bound(bindings, executable);
  executable->Run({bindings.training, bindings.seed, bindings.training_step});
}

Outputs RunAndRead(Execution* executable, const Bindings& bindings) {
  RunOn(executable, bindings);
  Outputs outputs;
  for (const NamedView& output : executable->lowered().outputs) {
    const std::span<const float> values = executable->Output(output.name);
    outputs[output.name] = {values.begin(), values.end()};
  }
  return outputs;
}

Outputs Execute(const Graph& graph, const Bindings& bindings, const ExecutableOptions& options) {
  Executable executable(graph, options);
  return RunAndRead(&executable, bindings);
}

std::string Differences(const Graph& graph, const Bindings& bindings, const Outputs& outputs,
                        double tolerance) {
  std::string text;
  for (const auto& [name, wanted] : Interpret(graph, bindings)) {
    text += Difference(name, wanted.data, outputs.at(name), tolerance);
  }
  return text;
}

Graph WithGradients(const Graph& graph, const std::string& suffix) {
  Graph result = graph;
  std::vector<Cotangent> cotangents;
  for (const auto& [name, id] : graph.outputs()) {
    const Node& output = graph.node(id);
    Node input;
    input.op = output.domain == Domain::kStatic ? Op::kParameter : Op::kInput;
    input.domain = output.domain;
    input.features = output.features;
    input.name = fmt::format("cotangent{}.{}", suffix, name);
    cotangents.push_back({id, result.Add(std::move(input))});
  }
  std::vector<NodeId> wrt;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const bool source = node.op == Op::kInput || node.op == Op::kParameter;
    if (source && node.type == ValueType::kFloat) wrt.push_back(id);
  }
  const std::vector<NodeId> gradients = Gradients(&result, cotangents, wrt);
  for (size_t i = 0; i < wrt.size(); ++i) {
    if (gradients[i] == kNoNode) continue;
    result.AddOutput(fmt::format("d{}.{}", suffix, graph.node(wrt[i]).name), gradients[i]);
  }
  return result;
}

void Choose(CellKernels kernels, const Graph& graph) {
  if (kernels == CellKernels::kCompiled) return RegisterCellKernels();
  const Executable executable(graph, {.streams = 1});
  for (const Group& group : executable.lowered().groups) {
    for (const Stage& stage : group.stages) {
      if (stage.kind != Stage::Kind::kPointwise) continue;
      const std::string text = stage.program.Text();
      const PointwiseRegistration none{text, nullptr};
      RegisterPointwiseKernels({&none, 1});
    }
  }
}

int CompiledLoopStages(const Executable& executable) {
  int count = 0;
  for (const Group& group : executable.lowered().groups) {
    if (!group.is_loop()) continue;
    for (const Stage& stage : group.stages) count += stage.kernel && stage.kernel->AheadOfTime();
  }
  return count;
}

}  // namespace turbolstm
