#include "nn/layers.h"

#include "base/error.h"

namespace turbolstm {

Value Embedding(Model& model, const std::string& name, const Value& index, int64_t vocabulary,
                int64_t n, const Initializer& init) {
  const Value table = model.Parameter(name + ".weight", {vocabulary, n}, init);
  return model.builder().Apply(Op::kGather, {table, index});
}

Value Linear(Model& model, const std::string& name, const Value& x, int64_t n, bool bias) {
  const Initializer init = Initializer::UniformFan(x.features());
  const Value y = MatMul(model.Parameter(name + ".weight", {n, x.features()}, init), x);
  return bias ? y + model.Parameter(name + ".bias", {n}, init) : y;
}

Value Dropout(const Value& x, double probability) {
  TL_CHECK(probability >= 0 && probability <= 1, "[dropout] probability is {}, wants 0 to 1",
           probability);
  if (probability == 0) return x;
  const double keep = 1.0 - probability;
  const Domain domain = x.builder().graph().node(x.id()).domain;
  return x * x.builder().RandomMask(domain, x.features(), keep, keep > 0 ? 1.0 / keep : 0.0, 1.0);
}

Value MeanOverTime(const Value& x) {
  Builder& b = x.builder();
  return SumTime(x) / Max(b.Lengths(), b.Constant(1.0));
}

Value MaxOverTime(const Value& x) {
  Builder& b = x.builder();
  return SumTime(Select(b.Apply(Op::kFirstMaxMask, {x}), x, b.Constant(0.0)));
}

}  // namespace turbolstm
