#include "plan/recurrent_graphs.h"

#include "graph/passes/lower_transforms.h"

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
