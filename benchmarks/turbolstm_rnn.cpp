#include "turbolstm_rnn.h"

#include "base/philox.h"
#include "graph/autodiff.h"
#include "nn/recurrent.h"

namespace turbolstm::bench {

Graph BuildGraph(const Case& c, bool training) {
  Model model;
  const Value x = model.builder().Input("x", Domain::kStep, {c.I});
  RecurrentOptions options;
  options.cell = c.cell;
  options.size.input = c.I;
  options.size.hidden = c.H;
  options.layers = c.L;
  options.bidirectional = c.bidirectional;
  const Value y = Recurrent(model, "rnn", x, options).output;
  model.graph().AddOutput("y", y.id());
  if (!training) return model.graph();
  const Value dy = model.builder().Input("dy", Domain::kStep, {c.H * c.directions()});
  std::vector<NodeId> wrt = {x.id()};
  for (const ParameterSpec& spec : model.parameters()) {
    wrt.push_back(model.graph().Find(spec.name));
  }
  const std::vector<NodeId> gradients = Gradients(&model.graph(), {{y.id(), dy.id()}}, wrt);
  for (size_t i = 0; i < wrt.size(); ++i) {
    const std::string name = model.graph().node(wrt[i]).name;
    model.graph().AddOutput("gradient." + name, gradients[i]);
  }
  return model.graph();
}

BoundValues::BoundValues(const Case& c, Execution* execution) {
  const std::vector<int64_t> wide = c.Lengths();
  const std::vector<int32_t> lengths(wide.begin(), wide.end());
  if (c.uniform_lengths) {
    execution->SetShape(c.T, c.B, lengths);
  } else {
    execution->SetShape(c.T, c.B);
  }
  uint32_t site = 0;
  for (const NamedView& input : execution->lowered().inputs) {
    int64_t elements = input.view.width;
    if (input.domain == Domain::kStep) elements *= c.T * c.B;
    const float scale = input.domain == Domain::kStatic ? 0.1f : 1.0f;
    std::vector<float>& values = values_[input.name];
    values.reserve(static_cast<size_t>(elements));
    const RandomSite random{.seed = 1, .site = site++};
    for (int64_t i = 0; i < elements; ++i) {
      values.push_back(scale * (2 * random.Uniform(static_cast<uint64_t>(i)) - 1));
    }
    execution->Bind(input.name, values);
  }
}

}  // namespace turbolstm::bench
