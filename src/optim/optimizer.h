#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "optim/parallel.h"

namespace turbolstm {

struct OptimizerOptions {
  double learning_rate = 0.001;
  double weight_decay = 0;  // sgd and adam: added to the gradient; adamw: shrinks the weight itself
  double momentum = 0;      // sgd
  bool nesterov = false;    // sgd, wants momentum > 0
  double beta1 = 0.9;       // adam and adamw
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

// One trained tensor of n elements; the weight is updated in place.
struct OptimizedParameter {
  std::string name;
  std::span<float> weight;          // [n]
  std::span<const float> gradient;  // [n], must not overlap the weight
};

// State that a checkpoint keeps: "<parameter>.exp_avg" and the like, PyTorch's names.
struct OptimizerState {
  std::string name;
  std::span<float> values;  // [n] of its parameter; written when a checkpoint is loaded
};

// An update rule over a fixed list of parameters, whose weights and gradients it refers to: they
// must outlive it and stay where they are. Formulas and rounding follow torch.optim (single
// tensor, no amsgrad, no dampening).
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One update of every weight from its gradient; a task is a chunk of a parameter.
  void Step(const ParallelFor& parallel_for = SerialFor);

  // The same in parts: Begin, then every element of every parameter once, from any thread.
  void Begin();
  void UpdateRange(size_t parameter, size_t first, size_t size);

  void set_learning_rate(double learning_rate);
  double learning_rate() const { return options_.learning_rate; }

  // Updates made so far; with State() and the learning rate all there is to keep.
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps);
  std::vector<OptimizerState> State();

 protected:
  // `slots` names the arrays that the rule keeps for each parameter.
  Optimizer(std::vector<OptimizedParameter> parameters, const OptimizerOptions& options,
            std::vector<std::string_view> slots);

  // A chunk of one parameter; slots[k] is the matching chunk of the k-th kept array.
  struct Chunk {
    std::span<float> weight;
    std::span<const float> gradient;
    std::vector<std::span<float>> slots;
  };
  // Called once a step before the chunks, with steps() already counting this one.
  virtual void Prepare() {}
  // Called for every chunk, from several threads at once.
  virtual void Update(const Chunk& chunk) const = 0;

  const OptimizerOptions& options() const { return options_; }

 private:
  struct Task {
    size_t parameter;
    size_t first;
    size_t size;
  };
  Chunk ChunkOf(const Task& task);

  std::vector<OptimizedParameter> parameters_;
  OptimizerOptions options_;
  std::vector<std::string_view> slot_names_;
  std::vector<std::vector<std::vector<float>>> slots_;  // [slot][parameter][n]
  std::vector<Task> tasks_;
  int64_t steps_ = 0;
};

// rule: "sgd", "adam" or "adamw". Throws Error naming an unknown rule, an option out of range or a
// parameter whose weight and gradient differ in size.
std::unique_ptr<Optimizer> MakeOptimizer(std::string_view rule,
                                         std::vector<OptimizedParameter> parameters,
                                         const OptimizerOptions& options);

}  // namespace turbolstm
