#include "testing/random_bindings.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "testing/dice.h"

namespace turbolstm {
namespace {

constexpr int32_t kOutsideEveryTable = 1 << 30;

// How many rows the smallest table has that this reader looks up with `index` as operand.
int64_t TableRows(const Graph& graph, const Node& reader) {
  switch (reader.op) {
    case Op::kGather:
      return graph.node(reader.inputs[0].source).features[0];
    case Op::kCrossEntropy:
      return graph.node(reader.inputs[0].source).features[0];
    case Op::kScatterAdd:
    case Op::kOneHot:
      return reader.attributes.size;
    default:
      return std::numeric_limits<int32_t>::max();
  }
}

std::vector<int64_t> IndexBounds(const Graph& graph) {
  std::vector<int64_t> bounds(static_cast<size_t>(graph.size()), 1000);
  for (const Node& reader : graph.nodes()) {
    for (const Edge& edge : reader.inputs) {
      if (graph.node(edge.source).type != ValueType::kIndex) continue;
      int64_t& bound = bounds[static_cast<size_t>(edge.source)];
      bound = std::min(bound, TableRows(graph, reader));
    }
  }
  return bounds;
}

// A value for each element; `padding` at padded steps.
template <typename T, typename Draw>
BasicArray<T> Fill(const Node& node, const Bindings& bindings, T padding, Draw draw) {
  BasicArray<T> array;
  array.shape = FullShape(node, bindings);
  const int64_t size = ElementCount(array.shape);
  const int64_t n = node.type == ValueType::kIndex ? 1 : ElementCount(node.features);
  for (int64_t i = 0; i < size; ++i) {
    bool valid = true;
    if (node.domain == Domain::kStep && !bindings.lengths.empty()) {
      const int64_t row = i / n;
      const auto b = static_cast<size_t>(row % bindings.batch);
      valid = row / bindings.batch < bindings.lengths[b];
    }
    const T drawn = draw();
    array.data.push_back(valid ? drawn : padding);
  }
  return array;
}

}  // namespace

Bindings RandomBindings(const Graph& graph, uint64_t seed, const RandomBindingsOptions& options) {
  Dice dice(seed);
  Bindings bindings;
  bindings.steps = options.steps;
  bindings.batch = options.batch;
  bindings.training = options.training;
  bindings.seed = seed;
  if (options.ragged) {
    for (int64_t b = 0; b < options.batch; ++b) {
      bindings.lengths.push_back(dice.Integer(0, options.steps));
    }
  }
  if (options.resets > 0) {
    for (int64_t i = 0; i < options.steps * options.batch; ++i) {
      bindings.resets.push_back(dice.Chance(options.resets) ? 1 : 0);
    }
  }
  const std::vector<int64_t> bounds = IndexBounds(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (node.op != Op::kInput && node.op != Op::kParameter) continue;
    if (node.type == ValueType::kIndex) {
      bindings.indices[node.name] = Fill<int32_t>(node, bindings, kOutsideEveryTable, [&] {
        return static_cast<int32_t>(dice.Integer(0, bounds[static_cast<size_t>(id)] - 1));
      });
      continue;
    }
    const bool matrix = node.op == Op::kParameter && node.features.size() > 1;
    const double fan_in = matrix ? static_cast<double>(node.features.back()) : 1;
    const double scale = 1 / std::sqrt(std::max(fan_in, 1.0));
    bindings.values[node.name] =
        Fill<double>(node, bindings, std::numeric_limits<double>::quiet_NaN(),
                     [&] { return dice.Real(-scale, scale); });
  }
  return bindings;
}

RandomBindingsOptions RandomBindingsOptionsFor(uint64_t seed) {
  Dice dice(seed ^ 0x9E3779B97F4A7C15u);
  RandomBindingsOptions options;
  options.steps = dice.Pick<int64_t>({0, 1, 2, 3, 5, 5, 7});
  options.batch = dice.Pick<int64_t>({0, 1, 2, 2, 3});
  options.ragged = dice.Chance(0.6);
  options.resets = dice.Chance(0.4) ? 0.3 : 0;
  options.training = dice.Chance(0.5);
  return options;
}

}  // namespace turbolstm
