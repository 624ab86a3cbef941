#include "testing/random_graph.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "base/error.h"
#include "graph/builder.h"
#include "testing/dice.h"

namespace turbolstm {
namespace {

constexpr double kLargest = 4;  // values beyond it are pulled back by tanh

// A value and how large its elements can get.
struct Item {
  Value value;
  double bound = 1;
};

class Generator {
 public:
  Generator(Graph* graph, uint64_t seed, const RandomGraphOptions& options)
      : graph_(graph),
        dice_(seed),
        options_(options),
        forward_(graph, Direction::kForward),
        reverse_(graph, Direction::kReverse) {}

  void Run() {
    width_ = dice_.Integer(1, 5);
    Sources();
    const NodeId wanted = graph_->size() + options_.operators;
    while (graph_->size() < wanted) {
      builder_ = options_.reverse && dice_.Chance(0.35) ? &reverse_ : &forward_;
      if (dice_.Chance(0.3)) {
        Loop();
      } else {
        Keep(dice_.Chance(0.3) ? AcrossSteps() : PerStep());
      }
    }
    Outputs();
  }

 private:
  const Node& node(const Value& value) const { return graph_->node(value.id()); }
  Domain domain(const Item& item) const { return node(item.value).domain; }

  void Keep(Item item) {
    if (item.value.defined()) pool_.push_back(Tame(item));
  }

  Item Tame(Item item) {
    if (item.bound <= kLargest) return item;
    return {Apply(Op::kTanh, {item.value}), 1};
  }

  // --- Sources.

  Value NewInput(Domain domain, int64_t n) {
    return builder_->Input(fmt::format("input{}", graph_->size()), domain, {n});
  }
  Value NewParameter(std::vector<int64_t> shape) {
    return builder_->Parameter(fmt::format("parameter{}", graph_->size()), std::move(shape));
  }
  Value Index(Domain domain) {
    std::vector<Value>& known = indices_[domain];
    if (known.empty() || dice_.Chance(0.3)) {
      known.push_back(builder_->IndexInput(fmt::format("index{}", graph_->size()), domain));
    }
    return dice_.Pick(known);
  }

  void Sources() {
    pool_.push_back({NewInput(Domain::kStep, width_), 1});
    if (dice_.Chance(0.7)) pool_.push_back({NewInput(Domain::kStep, dice_.Integer(1, 4)), 1});
    if (dice_.Chance(0.5)) pool_.push_back({NewInput(Domain::kBatch, width_), 1});
    if (dice_.Chance(0.5)) pool_.push_back({NewParameter({width_}), 1});
    if (dice_.Chance(0.3)) pool_.push_back({NewParameter({1}), 1});
  }

  // --- Operands.

  Value Apply(Op op, const std::vector<Value>& operands, Attributes attributes = {},
              Domain least = Domain::kStatic) {
    return builder_->Apply(op, operands, attributes, least);
  }

  // Of the pool, with at least this domain; `n` features, or any number where n is 0.
  Item Any(int64_t n = 0, Domain least = Domain::kStatic) {
    std::vector<Item> fitting;
    for (const Item& item : pool_) {
      if (node(item.value).features.size() != 1 || domain(item) < least) continue;
      if (n == 0 || item.value.features() == n) fitting.push_back(item);
    }
    if (!fitting.empty() && (n == 0 || !dice_.Chance(0.15))) return dice_.Pick(fitting);
    return Resized(Any(0, least), n);
  }

  // As an operand of a step operator: a step value may be read delayed.
  Item Operand(int64_t n = 0, Domain least = Domain::kStatic) {
    const Item item = Any(n, least);
    if (options_.delay_any && domain(item) != Domain::kStep && dice_.Chance(0.3)) {
      const Item delayed = Delayed(item);
      return {Apply(Op::kIdentity, {delayed.value}, {}, Domain::kStep), delayed.bound};
    }
    return domain(item) == Domain::kStep && dice_.Chance(0.3) ? Delayed(item) : item;
  }

  Item Delayed(const Item& item) {
    const auto delay = static_cast<int32_t>(dice_.Integer(1, options_.max_delay));
    Item delayed = {item.value.Delayed(delay, Initial(delay * item.value.features())),
                    std::max(item.bound, 1.0)};
    if (!options_.transforms) return delayed;
    if (dice_.Chance(0.3)) delayed.value = delayed.value.WithZoneout(Probability());
    if (dice_.Chance(0.3)) {
      delayed.value = delayed.value.WithVariationalDropout(Probability());
      delayed.bound *= 2;
    }
    return delayed;
  }

  float Probability() { return dice_.Pick<float>({0.25F, 0.5F, 1.0F}); }

  Value Initial(int64_t n) {
    switch (dice_.Integer(0, 4)) {
      case 0:
      case 1:
        return {};
      case 2:
        return NewInput(Domain::kBatch, n);
      case 3:
        return NewParameter({n});
      default:
        return Computed(n);
    }
  }

  // A batch value that something before has computed.
  Value Computed(int64_t n) {
    std::vector<Item> fitting;
    for (const Item& item : pool_) {
      if (domain(item) == Domain::kBatch && !node(item.value).inputs.empty()) {
        fitting.push_back(item);
      }
    }
    if (fitting.empty()) return {};
    const Item wide = Resized(dice_.Pick(fitting), n);
    return wide.bound <= 1 ? wide.value : Apply(Op::kTanh, {wide.value});
  }

  // By cutting, padding, repeating or a matrix product.
  Item Resized(const Item& item, int64_t n) {
    const int64_t has = item.value.features();
    if (has == n) return item;
    if (dice_.Chance(0.5)) return Projected(item, n);
    if (has > n) return {Slice(item.value, dice_.Integer(0, has - n), n), item.bound};
    if (dice_.Chance(0.5)) {
      const Attributes range = {.begin = dice_.Integer(0, n - has), .size = n};
      return {Apply(Op::kPad, {item.value}, range), item.bound};
    }
    std::vector<Value> parts(static_cast<size_t>(n / has), item.value);
    if (n % has != 0) parts.push_back(Slice(item.value, 0, n % has));
    return {Apply(Op::kConcat, parts), item.bound};
  }

  Item Projected(const Item& item, int64_t m) {
    const int64_t k = item.value.features();
    const double bound = item.bound * std::sqrt(static_cast<double>(k)) * 2;
    if (dice_.Chance(0.2)) return {Apply(Op::kMatMulTransposed, {Weight(k, m), item.value}), bound};
    return {Apply(Op::kMatMul, {Weight(m, k), item.value}), bound};
  }

  // A matrix [m, k], or block diagonal, bound or computed from parameters.
  Value Weight(int64_t m, int64_t k) {
    switch (dice_.Integer(0, 7)) {
      case 0:
        return Apply(Op::kProduct, {NewParameter({m, 2}), NewParameter({2, k})});
      case 1:
        return Apply(Op::kTranspose, {NewParameter({k, m})});
      case 2:
        return Slice(NewParameter({m + 2, k}), 1, m);
      case 3: {
        if (m != k) break;
        const Value w = NewParameter({m, k});
        return Apply(Op::kSub, {w, Apply(Op::kTranspose, {w})});
      }
      case 4:
      case 5: {
        const int64_t heads = m % 2 == 0 && k % 2 == 0 ? 2 : 1;
        return NewParameter({heads, m / heads, k / heads});
      }
      default:
        break;
    }
    return NewParameter({m, k});
  }

  // --- Operators that need one step only.

  Item PerStep() {
    switch (dice_.Integer(0, 9)) {
      case 0:
      case 1:
        return Unary(Operand());
      case 2:
      case 3:
      case 4:
        return Combination();
      case 5:
        return Projected(Operand(), dice_.Chance(0.6) ? width_ : dice_.Integer(1, 5));
      case 6:
        return Rearranged();
      case 7:
        return Masked();
      case 8:
        return Lookup();
      default:
        return RowWise();
    }
  }

  Item Unary(const Item& x) {
    const double b = x.bound;
    switch (dice_.Integer(0, 15)) {
      case 0:
        return {Apply(Op::kIdentity, {x.value}), b};
      case 1:
        return {Apply(Op::kNeg, {x.value}), b};
      case 2:
        return {Apply(Op::kRelu, {x.value}), b};
      case 3:
        return {Apply(Op::kSoftplus, {x.value}), b + 1};
      case 4:
        return {Apply(Op::kLogSigmoid, {x.value}), b + 1};
      case 5:
        return {Apply(Op::kExp, {b > 1 ? Apply(Op::kTanh, {x.value}) : x.value}), 3};
      case 6:
        return {Apply(Op::kLog, {Positive(x)}), 1};
      case 7:
        return {Apply(Op::kSqrt, {Positive(x)}), 1.5};
      case 8:
        return {Apply(Op::kReciprocal, {Positive(x)}), 2};
      case 9:
        return {Apply(Op::kAbs, {x.value}), b};
      case 10:
        return {Apply(Op::kSin, {x.value}), 1};
      case 11:
        return {Apply(Op::kCos, {x.value}), 1};
      case 12:
      case 13:
        return {Apply(Op::kSigmoid, {x.value}), 1};
      default:
        return {Apply(Op::kTanh, {x.value}), 1};
    }
  }

  // In (0.5, 1.5).
  Value Positive(const Item& x) {
    return Apply(Op::kAdd, {builder_->Constant(0.5), Apply(Op::kSigmoid, {x.value})});
  }

  Item Combination() {
    const Item a = Operand();
    const int64_t n = a.value.features();
    const Item b = dice_.Chance(0.2) ? Operand(1) : Operand(n);
    switch (dice_.Integer(0, 7)) {
      case 0: {
        const Item c = Operand(n);
        return {Apply(Op::kAdd, {a.value, b.value, c.value}), a.bound + b.bound + c.bound};
      }
      case 1:
        return {Apply(Op::kSub, {a.value, b.value}), a.bound + b.bound};
      case 2:
        return {Apply(Op::kMul, {a.value, b.value}), a.bound * b.bound};
      case 3:
        return {Apply(Op::kDiv, {a.value, Positive(b)}), a.bound * 2};
      case 4:
        return {Apply(Op::kMax, {a.value, b.value}), std::max(a.bound, b.bound)};
      case 5:
        return {Apply(Op::kMin, {a.value, b.value}), std::max(a.bound, b.bound)};
      case 6: {
        const Value condition = Apply(Op::kGreater, {Operand(n).value, Operand(1).value});
        return {Apply(Op::kSelect, {condition, a.value, b.value}), std::max(a.bound, b.bound)};
      }
      default:
        return {Apply(Op::kAdd, {a.value, b.value}), a.bound + b.bound};
    }
  }

  Item Rearranged() {
    const Item a = Operand();
    if (dice_.Chance(0.5)) {
      const Item b = Operand();
      const Item wide = {Apply(Op::kConcat, {a.value, b.value}), std::max(a.bound, b.bound)};
      return wide.value.features() > 8 ? Resized(wide, width_) : wide;
    }
    return Resized({Apply(Op::kIdentity, {a.value}), a.bound}, dice_.Integer(1, 5));
  }

  Item Masked() {
    const Item a = Operand();
    const Domain mask = dice_.Chance(0.5) ? Domain::kBatch : Domain::kStep;
    const Value drawn = builder_->RandomMask(mask, a.value.features(), 0.75, 1.25, 0.875);
    return {Apply(Op::kMul, {a.value, drawn}), a.bound * 1.25};
  }

  Item Lookup() {
    Value index = Index(dice_.Chance(0.8) ? Domain::kStep : Domain::kBatch);
    if (node(index).domain == Domain::kStep && dice_.Chance(0.3)) index = index.Previous();
    switch (dice_.Integer(0, 2)) {
      case 0:
        return {Apply(Op::kGather, {NewParameter({dice_.Integer(1, 4), width_}), index}), 1};
      case 1:
        return {Apply(Op::kOneHot, {index}, {.size = dice_.Integer(1, 4)}), 1};
      default: {
        const Item logits = Operand();
        return {Apply(Op::kCrossEntropy, {logits.value, index}), 2 * logits.bound + 2};
      }
    }
  }

  Item RowWise() {
    const Item a = Operand();
    if (dice_.Chance(0.5)) return {Apply(Op::kSoftmax, {a.value}), 1};
    return {Apply(Op::kRowSum, {a.value}), a.bound * static_cast<double>(a.value.features())};
  }

  // --- Operators over all steps or sequences.

  Item AcrossSteps() {
    switch (dice_.Integer(0, 8)) {
      case 0:
      case 1:
        return Scaled({Apply(Op::kSumTime, {Operand(0, Domain::kStep).value}), 1});
      case 2:
        return Scaled({Apply(Op::kSumRows, {Operand(0, Domain::kBatch).value}), 1});
      case 3: {
        const Item item = Any(0, Domain::kStep);
        return Scaled({Apply(Op::kFinal, {Delayed(item).value}), item.bound});
      }
      case 4: {
        const Item x = Any(0, Domain::kStep);
        const Value mask = Apply(Op::kFirstMaxMask, {x.value});
        return {Apply(Op::kSumTime, {Apply(Op::kMul, {mask, x.value})}), x.bound};
      }
      case 5: {
        const Value share =
            Apply(Op::kReciprocal, {Apply(Op::kAdd, {builder_->Constant(1), builder_->Lengths()})});
        return {Apply(Op::kMul, {share, Apply(Op::kSumTime, {Operand(0, Domain::kStep).value})}),
                kLargest};
      }
      case 6: {
        const Value rows = builder_->RowCount(dice_.Chance(0.5) ? Domain::kStep : Domain::kBatch);
        const Value share =
            Apply(Op::kReciprocal, {Apply(Op::kAdd, {builder_->Constant(1), rows})});
        return {Apply(Op::kMul, {share, Apply(Op::kSumRows, {Operand(0, Domain::kBatch).value})}),
                kLargest};
      }
      case 7:
        return History();
      default:
        return Matrix();
    }
  }

  Item Scaled(const Item& item) {
    const Value small = Apply(Op::kMul, {builder_->Constant(0.25), item.value});
    return {Apply(Op::kTanh, {small}), 1};
  }

  Item History() {
    const int64_t delay = dice_.Integer(1, options_.max_delay);
    if (dice_.Chance(0.3)) {
      const Item g = Operand(0, Domain::kStep);
      return Scaled({Apply(Op::kInitGrad, {g.value}, {.size = delay}), 1});
    }
    const Value batch = NewInput(Domain::kBatch, delay * width_);
    const Op op = dice_.Chance(0.5) ? Op::kFinalGrad : Op::kFinalInitGrad;
    return {Apply(op, {batch}, {.size = delay}), 1};
  }

  // Sums of outer products and scattered rows are weights of a product then.
  Item Matrix() {
    const Item x = Operand();
    const int64_t k = x.value.features();
    Value sum;
    if (dice_.Chance(0.6)) {
      const Item a = Operand(0, Domain::kBatch);
      const Item b = Operand(k, Domain::kBatch);
      const bool halves = a.value.features() % 2 == 0 && k % 2 == 0 && dice_.Chance(0.5);
      sum = Apply(Op::kOuter, {a.value, b.value}, {.size = halves ? 2 : 0});
    } else {
      const Value g = Operand(k, Domain::kBatch).value;
      sum = Apply(Op::kScatterAdd, {Index(Domain::kStep).Delayed(dice_.Chance(0.3) ? 1 : 0), g},
                  {.size = dice_.Integer(1, 3)});
    }
    matrices_.push_back(sum);
    const Item scaled = Scaled({sum, 1});
    return {Apply(Op::kMatMul, {scaled.value, x.value}), x.bound * static_cast<double>(k)};
  }

  // --- Cycles.

  // One to three states with bodies of random step operators between them.
  void Loop() {
    const size_t before = pool_.size();
    std::vector<Value> states;
    const auto count = dice_.Integer(1, 3);
    for (int64_t i = 0; i < count; ++i) {
      const std::string name = fmt::format("state{}", graph_->size());
      states.push_back(builder_->State(name, dice_.Chance(0.8) ? width_ : dice_.Integer(1, 3)));
    }
    const bool with_matrix = dice_.Chance(0.5);
    for (const Value& state : states) {
      const Item next = Next(state, states, with_matrix);
      builder_->Define(state, next.value);
      pool_.push_back({state, next.bound});
    }
    for (int extra = 0; extra < 2; ++extra) {
      if (dice_.Chance(0.5)) Keep(Unary(pool_[before]));
    }
  }

  Item Next(const Value& state, const std::vector<Value>& states, bool with_matrix) {
    const int64_t n = state.features();
    const Item own = Delayed({state, kLargest});
    if (dice_.Chance(0.25)) {
      // Linear in the state: a scan.
      const Item decay = {Apply(Op::kSigmoid, {Operand(n).value}), 1};
      const Value kept = Apply(Op::kMul, {decay.value, own.value});
      const Value half = Apply(Op::kMul, {builder_->Constant(0.5), kept});
      return {Apply(Op::kAdd, {half, Apply(Op::kTanh, {Operand(n).value})}, {}, Domain::kStep),
              kLargest};
    }
    std::vector<Value> terms = {Operand(n).value};
    for (const Value& other : states) {
      const Item read = Delayed({other, kLargest});
      if (with_matrix) {
        terms.push_back(Projected(read, n).value);
      } else if (other.features() == n || other.features() == 1) {
        terms.push_back(Unary(read).value);
      }
    }
    const Value sum = Apply(Op::kAdd, terms);
    if (with_matrix && dice_.Chance(0.3)) {
      // A second level: a product of what this step has computed.
      const Value gate = Apply(Op::kSigmoid, {sum});
      const Value gated = Apply(Op::kMul, {gate, own.value});
      return {Apply(Op::kTanh, {Projected({gated, 1}, n).value}, {}, Domain::kStep), 1};
    }
    if (dice_.Chance(0.5)) {
      const Value gate = Apply(Op::kSigmoid, {sum});
      const Value candidate = Apply(Op::kTanh, {Operand(n).value});
      const Value rest = Apply(Op::kSub, {builder_->Constant(1), gate});
      return {
          Apply(Op::kAdd, {Apply(Op::kMul, {gate, own.value}), Apply(Op::kMul, {rest, candidate})},
                {}, Domain::kStep),
          1};
    }
    return {Apply(Op::kTanh, {sum}, {}, Domain::kStep), 1};
  }

  // --- Outputs.

  void Outputs() {
    std::set<NodeId> read;
    for (const Node& reader : graph_->nodes()) {
      for (const Edge& edge : reader.inputs) read.insert(edge.source);
    }
    for (const Item& item : pool_)
      AddOutput(item.value, !read.contains(item.value.id()) || dice_.Chance(0.2));
    for (const Value& matrix : matrices_) AddOutput(matrix, dice_.Chance(0.5));
    builder_ = &forward_;
    if (graph_->outputs().empty()) AddOutput(Apply(Op::kTanh, {pool_.front().value}), true);
  }

  void AddOutput(const Value& value, bool wanted) {
    if (!wanted) return;
    graph_->AddOutput(fmt::format("output{}", graph_->outputs().size()), value.id());
  }

  Graph* graph_;
  Dice dice_;
  RandomGraphOptions options_;
  Builder forward_;
  Builder reverse_;
  Builder* builder_ = &forward_;
  int64_t width_ = 1;
  std::vector<Item> pool_;
  std::vector<Value> matrices_;
  std::map<Domain, std::vector<Value>> indices_;
};

}  // namespace

Graph RandomGraph(uint64_t seed, const RandomGraphOptions& options) {
  Graph graph;
  Generator(&graph, seed, options).Run();
  return graph;
}

}  // namespace turbolstm
