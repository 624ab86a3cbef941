#include "turbolstm/recurrent.h"

#include <algorithm>
#include <mutex>

#include "api/network_graph.h"
#include "api/shared_pool.h"
#include "base/error.h"
#include "cells/cell.h"
#include "graph/walk.h"
#include "kernels/cell_kernels.h"
#include "plan/executable.h"

namespace turbolstm {
namespace {

// A plan has tasks for every block of steps, so more would take minutes to plan.
constexpr int64_t kMostSteps = 1 << 20;

Precision CpuPrecisionNamed(std::string_view name) {
  const Precision precision = PrecisionNamed(name);
  TL_CHECK(precision == Precision::kFloat32 || precision == Precision::kBFloat16,
           "[network] the precision {} needs a GPU, and this network is for the CPU; "
           "wants fp32 or bf16",
           name);
  return precision;
}

void RegisterKernelsOnce() {
  static std::once_flag once;
  std::call_once(once, RegisterCellKernels);
}

}  // namespace

std::vector<CellInfo> ListCells() {
  std::vector<CellInfo> cells;
  for (const Cell& cell : AllCells()) {
    cells.push_back({std::string(cell.name), std::string(cell.description), cell.projects});
  }
  return cells;
}

struct RecurrentNetwork::Compiled {
  LoweredGraph lowered;
  ExecutableOptions options;
  int threads = 0;
  std::vector<ParameterSpec> specs;  // under short names, as all names here
  std::vector<ValueInfo> parameters, inputs, outputs;
  std::vector<StateInfo> states;

  // The name within the graph. Error: there is none, said with the names that there are.
  std::string NameOf(std::string_view name, const std::vector<ValueInfo>& known) const {
    std::vector<std::string_view> names;
    for (const ValueInfo& value : known) {
      if (value.name == name) return NameInGraph(value.name);
      names.push_back(value.name);
    }
    Fail("[network] there is no '{}'; there are {}", name, fmt::join(names, ", "));
  }
};

RecurrentNetwork::RecurrentNetwork(const RecurrentSpec& spec, const CompileOptions& options) {
  RegisterKernelsOnce();
  auto compiled = std::make_shared<Compiled>();
  NetworkGraph network = BuildNetwork(spec, options.gradients, options.cotangents);
  compiled->states = std::move(network.states);
  compiled->specs = std::move(network.specs);
  compiled->parameters = std::move(network.parameters);
  compiled->options.late_inputs = std::move(network.late_inputs);
  compiled->options.precision = CpuPrecisionNamed(options.precision);
  compiled->options.schedule = ScheduleNamed(options.schedule);
  compiled->threads = options.threads;
  compiled->options.streams = PoolOf(options.threads).streams->streams();
  compiled->lowered =
      Executable(std::move(network.graph), compiled->options, PoolOf(options.threads).streams)
          .lowered();
  for (const NamedView& value : compiled->lowered.inputs) {
    compiled->inputs.push_back(InfoOf(value));
  }
  for (const NamedView& value : compiled->lowered.outputs) {
    compiled->outputs.push_back(InfoOf(value));
  }
  compiled_ = std::move(compiled);
}

RecurrentNetwork::~RecurrentNetwork() = default;

const std::vector<ValueInfo>& RecurrentNetwork::parameters() const {
  return compiled_->parameters;
}
const std::vector<StateInfo>& RecurrentNetwork::states() const {
  return compiled_->states;
}
const std::vector<ValueInfo>& RecurrentNetwork::inputs() const {
  return compiled_->inputs;
}
const std::vector<ValueInfo>& RecurrentNetwork::outputs() const {
  return compiled_->outputs;
}

std::vector<float> RecurrentNetwork::InitialValues(std::string_view parameter,
                                                   uint64_t seed) const {
  compiled_->NameOf(parameter, compiled_->parameters);
  return DrawParameter(*std::ranges::find(compiled_->specs, parameter, &ParameterSpec::name), seed);
}

std::unique_ptr<RecurrentRun> RecurrentNetwork::NewRun() const {
  return std::unique_ptr<RecurrentRun>(new RecurrentRun(compiled_));
}

struct RecurrentRun::State {
  State(std::shared_ptr<const RecurrentNetwork::Compiled> of)
      : compiled(std::move(of)),
        pool(PoolOf(compiled->threads)),
        executable(compiled->lowered, compiled->options, pool.streams) {}

  bool HasHalves() const { return !compiled->options.late_inputs.empty(); }
  std::string Input(std::string_view name) const {
    return compiled->NameOf(name, compiled->inputs);
  }
  std::string Output(std::string_view name) const {
    return compiled->NameOf(name, compiled->outputs);
  }

  std::shared_ptr<const RecurrentNetwork::Compiled> compiled;
  SharedPool& pool;
  Executable executable;
};

RecurrentRun::RecurrentRun(std::shared_ptr<const RecurrentNetwork::Compiled> compiled)
    : state_(std::make_unique<State>(std::move(compiled))) {}

RecurrentRun::~RecurrentRun() = default;

void RecurrentRun::SetShape(int64_t steps, int64_t batch, std::span<const int32_t> lengths,
                            std::span<const uint8_t> resets) {
  TL_CHECK(steps <= kMostSteps, "[run] got {} steps, wants at most {}", steps, kMostSteps);
  std::vector<uint8_t> to_zero(resets.begin(), resets.end());
  for (uint8_t& reset : to_zero) reset = reset != 0 ? kResetToZero : 0;
  state_->executable.SetShape(steps, batch, lengths, to_zero);
}

void RecurrentRun::Bind(std::string_view name, std::span<const float> values) {
  state_->executable.Bind(state_->Input(name), values);
}

void RecurrentRun::BindRows(std::string_view name, std::span<const float> values) {
  state_->executable.BindRows(state_->Input(name), values);
}

void RecurrentRun::ParametersChanged() {
  state_->executable.ParametersChanged();
}

void RecurrentRun::Forward(bool training, uint64_t seed) {
  CheckProcess(state_->pool);
  const std::lock_guard turn(state_->pool.turn);
  const RunOptions options{.training = training, .seed = seed};
  if (state_->HasHalves()) {
    state_->executable.RunEarly(options);
  } else {
    state_->executable.Run(options);
  }
}

void RecurrentRun::Backward() {
  TL_CHECK(state_->HasHalves(), "[run] the network was compiled without gradients");
  CheckProcess(state_->pool);
  const std::lock_guard turn(state_->pool.turn);
  state_->executable.RunLate();
}

namespace {

void CopyOut(std::string_view name, std::span<const float> from, std::span<float> to) {
  TL_CHECK(from.size() == to.size(), "[output] '{}' has {} elements, got room for {}", name,
           from.size(), to.size());
  std::ranges::copy(from, to.begin());
}

}  // namespace

void RecurrentRun::Read(std::string_view name, std::span<float> values) {
  CopyOut(name, state_->executable.Output(state_->Output(name)), values);
}

void RecurrentRun::ReadRows(std::string_view name, std::span<float> values) {
  CopyOut(name, state_->executable.OutputRows(state_->Output(name)), values);
}

int64_t RecurrentRun::memory_bytes() const {
  return state_->executable.memory_bytes();
}

}  // namespace turbolstm
