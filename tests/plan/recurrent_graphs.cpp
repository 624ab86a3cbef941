#include "plan/recurrent_graphs.h"

#include <cmath>

#include "graph/passes/lower_transforms.h"
#include "testing/dice.h"
#include "testing/random_bindings.h"

namespace turbolstm {

RecurrentOptions SmallOptions(const std::string& cell) {
  RecurrentOptions options;
  options.cell = cell;
  options.size.input = 5;
  options.size.hidden = 6;
  options.size.projection = FindCell(cell).projects ? 4 : 0;
  options.size.heads = 2;
  return options;
}

Graph RecurrentGraph(const RecurrentOptions& options) {
  Model model;
  const Value x = model.builder().Input("x", Domain::kStep, {options.size.input});
  const RecurrentResult result = Recurrent(model, "rnn", x, options);
  model.graph().AddOutput("y", result.output.id());
  AddFinalStates(model, result);
  LowerTransforms(&model.graph());
  return model.graph();
}

std::vector<std::string> CellNames() {
  std::vector<std::string> names;
  for (const Cell& cell : AllCells()) names.emplace_back(cell.name);
  return names;
}

Bindings LargeBindings(const Graph& graph) {
  Bindings bindings = RandomBindings(graph, 1, {.steps = 6, .batch = 4, .ragged = true});
  Dice dice(2);
  for (double& v : bindings.values.at("rnn.weight_ih_l0").data) {
    v = static_cast<double>(dice.Integer(-8, 8)) / 8;
  }
  for (double& v : bindings.values.at("x").data) {
    if (!std::isnan(v)) v = 1e4 * static_cast<double>(dice.Integer(-3, 3));
  }
  return bindings;
}

std::vector<float> RowOf(const std::vector<float>& values, int64_t steps, int64_t batch,
                         int64_t b) {
  std::vector<float> row;
  const int64_t n = steps * batch == 0 ? 0 : std::ssize(values) / (steps * batch);
  for (int64_t t = 0; t < steps; ++t) {
    const auto begin = values.begin() + (t * batch + b) * n;
    row.insert(row.end(), begin, begin + n);
  }
  return row;
}

std::vector<float> Narrow(const Array& array) {
  return {array.data.begin(), array.data.end()};
}

}  // namespace turbolstm
