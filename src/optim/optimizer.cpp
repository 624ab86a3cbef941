#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"
#include "optim/adam.h"
#include "optim/sgd.h"

namespace turbolstm {
namespace {

void CheckOptions(const OptimizerOptions& options) {
  const auto check = [](const char* name, double value, double least, double below) {
    TL_CHECK(value >= least && value < below, "[optimizer] {} is {}, wants [{}, {})", name, value,
             least, below);
  };
  check("learning_rate", options.learning_rate, 0, INFINITY);
  check("weight_decay", options.weight_decay, 0, INFINITY);
  check("momentum", options.momentum, 0, INFINITY);
  check("beta1", options.beta1, 0, 1);
  check("beta2", options.beta2, 0, 1);
  check("epsilon", options.epsilon, 0, INFINITY);
  TL_CHECK(!options.nesterov || options.momentum > 0,
           "[optimizer] nesterov wants a momentum above 0, got {}", options.momentum);
}

}  // namespace

Optimizer::Optimizer(std::vector<OptimizedParameter> parameters, const OptimizerOptions& options,
                     std::vector<std::string_view> slots)
    : parameters_(std::move(parameters)),
      options_(options),
      slot_names_(std::move(slots)),
      slots_(slot_names_.size()) {
  CheckOptions(options_);
  std::set<std::string_view> names;
  for (size_t p = 0; p < parameters_.size(); ++p) {
    const OptimizedParameter& parameter = parameters_[p];
    const size_t n = parameter.weight.size();
    TL_CHECK(parameter.gradient.size() == n,
             "[optimizer] parameter '{}' has {} gradients for {} weights", parameter.name,
             parameter.gradient.size(), n);
    TL_CHECK(names.insert(parameter.name).second, "[optimizer] two parameters are named '{}'",
             parameter.name);
    for (auto& slot : slots_) slot.emplace_back(n, 0.0f);
    for (size_t first = 0; first < n; first += kOptimizerChunk) {
      tasks_.push_back({p, first, std::min(kOptimizerChunk, n - first)});
    }
  }
}

Optimizer::Chunk Optimizer::ChunkOf(const Task& task) {
  const OptimizedParameter& parameter = parameters_[task.parameter];
  Chunk chunk{.weight = parameter.weight.subspan(task.first, task.size),
              .gradient = parameter.gradient.subspan(task.first, task.size),
              .slots = {}};
  for (auto& slot : slots_) {
    chunk.slots.push_back(std::span(slot[task.parameter]).subspan(task.first, task.size));
  }
  return chunk;
}

void Optimizer::Begin() {
  ++steps_;
  Prepare();
}

void Optimizer::UpdateRange(size_t parameter, size_t first, size_t size) {
  Update(ChunkOf({parameter, first, size}));
}

void Optimizer::Step(const ParallelFor& parallel_for) {
  Begin();
  parallel_for(static_cast<int64_t>(tasks_.size()),
               [&](int64_t i) { Update(ChunkOf(tasks_[static_cast<size_t>(i)])); });
}

void Optimizer::set_learning_rate(double learning_rate) {
  OptimizerOptions changed = options_;
  changed.learning_rate = learning_rate;
  CheckOptions(changed);
  options_ = changed;
}

void Optimizer::set_steps(int64_t steps) {
  TL_CHECK(steps >= 0, "[optimizer] steps is {}, wants at least 0", steps);
  steps_ = steps;
}

std::vector<OptimizerState> Optimizer::State() {
  std::vector<OptimizerState> state;
  for (size_t p = 0; p < parameters_.size(); ++p) {
    for (size_t slot = 0; slot < slots_.size(); ++slot) {
      state.push_back({fmt::format("{}.{}", parameters_[p].name, slot_names_[slot]),
                       std::span(slots_[slot][p])});
    }
  }
  return state;
}

std::unique_ptr<Optimizer> MakeOptimizer(std::string_view rule,
                                         std::vector<OptimizedParameter> parameters,
                                         const OptimizerOptions& options) {
  if (rule == "sgd") return std::make_unique<Sgd>(std::move(parameters), options);
  if (rule == "adam" || rule == "adamw") {
    const WeightDecay decay = rule == "adam" ? WeightDecay::kInGradient : WeightDecay::kDecoupled;
    return std::make_unique<Adam>(std::move(parameters), options, decay);
  }
  Fail("[optimizer] rule is '{}', wants sgd, adam or adamw", rule);
}

}  // namespace turbolstm
