#include "testing/gradient_check.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "graph/autodiff.h"
#include "testing/dice.h"

namespace turbolstm {
namespace {

// The second and later ones only where an operator with a kink stands within the first step.
constexpr double kSteps[] = {1e-5, 1e-6, 3e-5, 1e-7};
// A derivative that cancels to less than this share of its terms is compared with the terms.
constexpr double kCancellation = 1e-3;

bool IsFloatSource(const Node& node) {
  return (node.op == Op::kInput || node.op == Op::kParameter) && node.type == ValueType::kFloat;
}

std::vector<NodeId> FloatSources(const Graph& graph) {
  std::vector<NodeId> sources;
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (IsFloatSource(graph.node(id))) sources.push_back(id);
  }
  return sources;
}

class GradientCheck {
 public:
  GradientCheck(const Graph& graph, const Bindings& bindings, uint64_t seed)
      : graph_(graph), bindings_(bindings), dice_(seed), sources_(FloatSources(graph)) {}

  std::string Run(int order) {
    for (const auto& [name, id] : graph_.outputs()) terms_.push_back(WithCotangent(id));
    std::vector<NodeId> gradients = Differentiate();
    for (int i = 1; i < order; ++i) {
      terms_.clear();
      for (const NodeId gradient : gradients) {
        if (gradient != kNoNode) terms_.push_back(WithCotangent(gradient));
      }
      gradients = Differentiate();
    }
    std::string report;
    for (size_t i = 0; i < sources_.size(); ++i) report += Compare(sources_[i], gradients[i]);
    return report;
  }

 private:
  // The cotangent is an input of its own; at padded steps it is never read.
  Cotangent WithCotangent(NodeId output) {
    Node node;
    const Node& like = graph_.node(output);
    node.op = like.domain == Domain::kStatic ? Op::kParameter : Op::kInput;
    node.domain = like.domain;
    node.features = like.features;
    node.name = fmt::format("cotangent.{}", graph_.size());
    Array& array = bindings_.values[node.name];
    array.shape = FullShape(node, bindings_);
    array.data.resize(static_cast<size_t>(ElementCount(array.shape)));
    for (double& value : array.data) value = dice_.Real(-1, 1);
    return {output, graph_.Add(std::move(node))};
  }

  std::vector<NodeId> Differentiate() { return Gradients(&graph_, terms_, sources_); }

  double Loss(const Bindings& bindings) const {
    std::vector<NodeId> outputs;
    for (const Cotangent& term : terms_) outputs.push_back(term.output);
    const std::vector<Array> values = InterpretNodes(graph_, bindings, outputs);
    double loss = 0;
    for (size_t k = 0; k < values.size(); ++k) {
      const Array& weight = bindings.values.at(graph_.node(terms_[k].cotangent).name);
      for (size_t i = 0; i < weight.data.size(); ++i) {
        loss += weight.data[i] * values[k].data[i];
      }
    }
    return loss;
  }

  std::string Compare(NodeId source, NodeId gradient) {
    const std::string& name = graph_.node(source).name;
    std::vector<double> direction(bindings_.values.at(name).data.size());
    for (double& value : direction) value = dice_.Real(-1, 1);
    double derivative = 0;
    double terms = 0;
    if (gradient != kNoNode) {
      const Array values = InterpretNodes(graph_, bindings_, {gradient}).front();
      for (size_t i = 0; i < direction.size(); ++i) {
        derivative += direction[i] * values.data[i];
        terms += std::abs(direction[i] * values.data[i]);
      }
    }
    double best = HUGE_VAL;
    double difference = 0;
    for (const double step : kSteps) {
      const double found = Difference(name, direction, step);
      // Rounding of the loss itself bounds what a difference can show.
      const double noise = 1e-15 * std::abs(Loss(bindings_)) / step;
      const double scale =
          std::max({std::abs(found), std::abs(derivative), kCancellation * terms, 1e-6});
      const double error = std::max(0.0, std::abs(found - derivative) - noise) / scale;
      if (!(error < best)) continue;
      best = error;
      difference = found;
      if (best <= kGradientTolerance) return "";
    }
    return fmt::format("{}: gradient {}, central difference {}, error {}\n", name, derivative,
                       difference, best);
  }

  double Difference(const std::string& name, const std::vector<double>& direction, double step) {
    Bindings moved = bindings_;
    std::vector<double>& data = moved.values.at(name).data;
    const std::vector<double>& center = bindings_.values.at(name).data;
    double loss[2];
    for (const int side : {0, 1}) {
      for (size_t i = 0; i < data.size(); ++i) {
        data[i] = center[i] + (side == 0 ? step : -step) * direction[i];
      }
      loss[side] = Loss(moved);
    }
    return (loss[0] - loss[1]) / (2 * step);
  }

  Graph graph_;
  Bindings bindings_;
  Dice dice_;
  std::vector<NodeId> sources_;
  std::vector<Cotangent> terms_;
};

}  // namespace

std::string CheckGradients(const Graph& graph, const Bindings& bindings, uint64_t seed, int order) {
  return GradientCheck(graph, bindings, seed).Run(order);
}

}  // namespace turbolstm
