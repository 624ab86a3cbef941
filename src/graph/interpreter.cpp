#include "graph/interpreter.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/philox.h"
#include "graph/interpreter_checks.h"
#include "graph/pointwise_reference.h"
#include "graph/reads.h"

namespace turbolstm {
namespace {

// A row that stretches when it has one element.
struct Row {
  const double* data;  // null: zeros
  int64_t n;
  double operator[](int64_t i) const { return data == nullptr ? 0 : data[n == 1 ? 0 : i]; }
};

class Interpreter {
 public:
  Interpreter(const Graph& graph, const Bindings& bindings)
      : graph_(graph),
        bindings_(bindings),
        reads_(graph, bindings),
        values_(static_cast<size_t>(graph.size())),
        states_(static_cast<size_t>(graph.size())) {
    CheckInterpretable(graph);
    CheckBindings(graph, bindings);
  }

  Array Value(NodeId id) {
    const Node& node = graph_.node(id);
    TL_CHECK(node.type == ValueType::kFloat, "[interpreter] '{}' holds indices, wants numbers",
             graph_.Label(id));
    Touch(id);
    reads_.ForEachRow(node.domain, [&](Reads::Site site) {
      Evaluate({id, reads_.RowOf(node.domain, site)});
    });
    return {FullShape(node, bindings_), values_[static_cast<size_t>(id)]};
  }

 private:
  using Cell = Reads::Cell;
  using Site = Reads::Site;
  using Source = Reads::Source;
  enum State : uint8_t { kUnknown, kOpen, kDone };

  // --- Evaluation, on a stack of our own: a chain over many steps is deep.

  void Touch(NodeId id) {
    const Node& node = graph_.node(id);
    const size_t i = static_cast<size_t>(id);
    int64_t rows = 1;
    if (node.domain != Domain::kStatic) rows *= bindings_.batch;
    if (node.domain == Domain::kStep) rows *= bindings_.steps;
    if (!states_[i].empty() || rows == 0) return;
    states_[i].resize(static_cast<size_t>(rows), kUnknown);
    values_[i].resize(static_cast<size_t>(rows * ElementCount(node.features)), 0.0);
  }

  State& StateOf(Cell cell) {
    Touch(cell.node);
    return states_[static_cast<size_t>(cell.node)][static_cast<size_t>(cell.row)];
  }

  void Evaluate(Cell root) {
    std::vector<Cell> stack = {root};
    while (!stack.empty()) {
      const Cell cell = stack.back();
      State& state = StateOf(cell);
      if (state == kUnknown) {
        state = kOpen;
        PushSources(cell, &stack);
        continue;
      }
      stack.pop_back();
      if (state == kDone) continue;
      Compute(cell);
      state = kDone;
    }
  }

  void PushSources(Cell cell, std::vector<Cell>* stack) {
    reads_.ForEachSource(cell, [&](Source source) {
      if (source.cell.node == kNoNode) return;
      if (graph_.node(source.cell.node).type == ValueType::kIndex) return;
      const State state = StateOf(source.cell);
      if (state == kOpen) FailOnCycle(source.cell, *stack);
      if (state == kUnknown) stack->push_back(source.cell);
    });
  }

  // Open cells on the stack are the path from the root; the cycle is its part from `cell` on.
  [[noreturn]] void FailOnCycle(Cell cell, const std::vector<Cell>& stack) {
    std::vector<std::string> names = {graph_.Label(cell.node)};
    for (auto entry = stack.rbegin(); entry != stack.rend(); ++entry) {
      if (StateOf(*entry) != kOpen) continue;
      names.push_back(graph_.Label(entry->node));
      if (entry->node == cell.node && entry->row == cell.row) break;
    }
    std::reverse(names.begin(), names.end());
    Fail("[interpreter] a value depends on itself: {}", fmt::join(names, " reads "));
  }

  // --- Operators.

  double* Data(Cell cell) {
    const int64_t n = ElementCount(graph_.node(cell.node).features);
    return values_[static_cast<size_t>(cell.node)].data() + cell.row * n;
  }

  Row Read(const Node& reader, size_t operand, Site site) {
    const Edge& edge = reader.inputs[operand];
    const int64_t n = ElementCount(graph_.node(edge.source).features);
    return Read(reads_.Find(reader, edge, site), n);
  }
  Row Read(Source source, int64_t n) {
    if (source.cell.node == kNoNode) return {nullptr, n};
    return {Data(source.cell) + source.offset, n};
  }

  int64_t ReadIndex(const Node& reader, size_t operand, Site site, int64_t bound) const {
    const Source source = reads_.Find(reader, reader.inputs[operand], site);
    if (source.cell.node == kNoNode) return 0;
    const Node& ids = graph_.node(source.cell.node);
    const int64_t index = bindings_.indices.at(ids.name).data[static_cast<size_t>(source.cell.row)];
    const Site place = reads_.SiteOf(ids.domain, source.cell.row);
    TL_CHECK(index >= 0 && index < bound,
             "[{}] index {} of '{}' (step {}, sequence {}) wants 0 to {}", Traits(reader.op).name,
             index, ids.name, place.t, place.b, bound - 1);
    return index;
  }

  void Compute(Cell cell) {
    const Node& node = graph_.node(cell.node);
    const Site site = reads_.SiteOf(node.domain, cell.row);
    const int64_t n = ElementCount(node.features);
    double* out = Data(cell);
    if (Traits(node.op).pointwise) return Pointwise(node, site, out, n);
    switch (node.op) {
      case Op::kInput:
      case Op::kParameter: {
        const double* bound = bindings_.values.at(node.name).data.data() + cell.row * n;
        std::copy(bound, bound + n, out);
        return;
      }
      case Op::kConstant:
        *out = node.attributes.number;
        return;
      case Op::kRandomMask:
        return RandomMask(node, cell.row, out, n);
      case Op::kLengths:
        *out = static_cast<double>(reads_.Length(site.b));
        return;
      case Op::kRowCount:
        reads_.ForEachRow(node.attributes.domain, [&](Site) { *out += 1; });
        return;
      case Op::kMatMul:
      case Op::kMatMulTransposed:
        return MatMul(node, site, out);
      case Op::kOuter:
        return Outer(node, cell.row, out);
      case Op::kProduct:
        return Product(node, site, out);
      case Op::kTranspose:
        return Transpose(node, site, out, n);
      case Op::kSlice:
      case Op::kPad:
        return Range(node, site, out);
      case Op::kConcat:
        return Concat(node, site, out);
      case Op::kRowSum: {
        const Row x = Read(node, 0, site);
        for (int64_t i = 0; i < x.n; ++i) *out += x[i];
        return;
      }
      case Op::kSumTime:
      case Op::kSumRows:
        reads_.ForEachSite(node, cell.row, [&](Site s) {
          const Row x = Read(node, 0, s);
          for (int64_t i = 0; i < n; ++i) out[i] += x[i];
        });
        return;
      case Op::kFirstMaxMask:
        return FirstMaxMask(node, site, out, n);
      case Op::kFinal:
        return Final(node, site, out);
      case Op::kFinalGrad:
        return FinalGrad(node, site, out, n);
      case Op::kFinalInitGrad:
        return FinalInitGrad(node, site, out);
      case Op::kInitGrad:
        return InitGrad(node, site, out);
      case Op::kGather: {
        const Row table = Read(node, 0, site);
        const int64_t rows = graph_.node(node.inputs[0].source).features[0];
        const int64_t index = ReadIndex(node, 1, site, rows);
        for (int64_t i = 0; i < n; ++i) out[i] = table[index * n + i];
        return;
      }
      case Op::kScatterAdd:
        reads_.ForEachSite(node, cell.row, [&](Site s) {
          const int64_t index = ReadIndex(node, 0, s, node.features[0]);
          const Row g = Read(node, 1, s);
          for (int64_t i = 0; i < g.n; ++i) out[index * g.n + i] += g[i];
        });
        return;
      case Op::kOneHot:
        out[ReadIndex(node, 0, site, n)] = 1;
        return;
      case Op::kSoftmax: {
        const Row x = Read(node, 0, site);
        const double log_sum = LogSumExp(x);
        for (int64_t i = 0; i < n; ++i) out[i] = std::exp(x[i] - log_sum);
        return;
      }
      case Op::kCrossEntropy: {
        const Row logits = Read(node, 0, site);
        *out = LogSumExp(logits) - logits[ReadIndex(node, 1, site, logits.n)];
        return;
      }
      default:
        Fail("[interpreter] operator '{}' has no meaning", Traits(node.op).name);
    }
  }

  void Pointwise(const Node& node, Site site, double* out, int64_t n) {
    std::vector<Row> rows;
    for (size_t i = 0; i < node.inputs.size(); ++i) rows.push_back(Read(node, i, site));
    std::vector<double> x(rows.size());
    for (int64_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < rows.size(); ++k) x[k] = rows[k][i];
      out[i] = PointwiseReference(node.op, x);
    }
  }

  void RandomMask(const Node& node, int64_t row, double* out, int64_t n) const {
    const auto [keep, scale] = std::pair(node.attributes.number, node.attributes.scale);
    const RandomSite site{bindings_.seed, bindings_.training_step,
                          static_cast<uint32_t>(node.attributes.site)};
    for (int64_t i = 0; i < n; ++i) {
      const bool kept = site.Uniform(static_cast<uint64_t>(row * n + i)) < keep;
      out[i] = bindings_.training ? (kept ? scale : 0) : node.attributes.mean;
    }
  }

  // y = W x for each head, or Wᵀ x.
  void MatMul(const Node& node, Site site, double* out) {
    const std::vector<int64_t>& shape = graph_.node(node.inputs[0].source).features;
    const int64_t heads = shape.size() == 3 ? shape[0] : 1;
    const int64_t m = shape[shape.size() - 2];
    const int64_t k = shape[shape.size() - 1];
    const Row w = Read(node, 0, site);
    const Row x = Read(node, 1, site);
    const bool transposed = node.op == Op::kMatMulTransposed;
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < k; ++j) {
          const double weight = w[(head * m + i) * k + j];
          if (transposed) {
            out[head * k + j] += weight * x[head * m + i];
          } else {
            out[head * m + i] += weight * x[head * k + j];
          }
        }
      }
    }
  }

  void Outer(const Node& node, int64_t row, double* out) {
    const int64_t heads = std::max<int64_t>(node.attributes.size, 1);
    const int64_t m = node.features[node.features.size() - 2];
    const int64_t k = node.features[node.features.size() - 1];
    reads_.ForEachSite(node, row, [&](Site site) {
      const Row a = Read(node, 0, site);
      const Row b = Read(node, 1, site);
      for (int64_t head = 0; head < heads; ++head) {
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < k; ++j) {
            out[(head * m + i) * k + j] += a[head * m + i] * b[head * k + j];
          }
        }
      }
    });
  }

  void Product(const Node& node, Site site, double* out) {
    const Row a = Read(node, 0, site);
    const Row b = Read(node, 1, site);
    const int64_t m = node.features[0];
    const int64_t n = node.features[1];
    const int64_t inner = graph_.node(node.inputs[1].source).features[0];
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t k = 0; k < inner; ++k) out[i * n + j] += a[i * inner + k] * b[k * n + j];
      }
    }
  }

  void Transpose(const Node& node, Site site, double* out, int64_t n) {
    const Row x = Read(node, 0, site);
    const int64_t rows = node.features.end()[-2];
    const int64_t columns = node.features.end()[-1];
    for (int64_t i = 0; i < n; ++i) {
      const int64_t matrix = i / (rows * columns);
      const int64_t r = i / columns % rows;
      const int64_t c = i % columns;
      out[i] = x[(matrix * columns + c) * rows + r];
    }
  }

  // Slice and Pad: a run of rows of the first axis moves by `begin`.
  void Range(const Node& node, Site site, double* out) {
    const Row x = Read(node, 0, site);
    const std::vector<int64_t>& source = graph_.node(node.inputs[0].source).features;
    const int64_t inner = ElementCount({source.begin() + 1, source.end()});
    const int64_t offset = node.attributes.begin * inner;
    if (node.op == Op::kSlice) {
      for (int64_t i = 0; i < node.attributes.size * inner; ++i) out[i] = x[offset + i];
    } else {
      for (int64_t i = 0; i < x.n; ++i) out[offset + i] = x[i];
    }
  }

  void Concat(const Node& node, Site site, double* out) {
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const Row x = Read(node, k, site);
      for (int64_t i = 0; i < x.n; ++i) *out++ = x[i];
    }
  }

  void FirstMaxMask(const Node& node, Site site, double* out, int64_t n) {
    std::vector<double> best(static_cast<size_t>(n), -std::numeric_limits<double>::infinity());
    std::vector<int64_t> first(static_cast<size_t>(n), 0);
    reads_.ForEachStep(site.b, [&](Site s) {
      const Row x = Read(node, 0, s);
      for (size_t i = 0; i < best.size(); ++i) {
        const double value = x[static_cast<int64_t>(i)];
        if (value <= best[i]) continue;
        best[i] = value;
        first[i] = s.t;
      }
    });
    for (int64_t i = 0; i < n; ++i) out[i] = first[static_cast<size_t>(i)] == site.t ? 1 : 0;
  }

  void Final(const Node& node, Site site, double* out) {
    const Edge& edge = node.inputs[0];
    const int64_t n = ElementCount(graph_.node(edge.source).features);
    for (int64_t j = 0; j < edge.delay; ++j) {
      const Row x = Read(reads_.FindFinal(node, site.b, j), n);
      for (int64_t i = 0; i < n; ++i) out[j * n + i] = x[i];
    }
  }

  void FinalGrad(const Node& node, Site site, double* out, int64_t n) {
    const Walk walk = reads_.WalkOf(site.b, node.direction);
    const Link link = walk.ReadFinal(walk.Position(site.t), node.attributes.size);
    if (link.kind == Link::Kind::kNothing) return;
    const Row g = Read(node, 0, site);
    for (int64_t i = 0; i < n; ++i) out[i] = g[link.index * n + i];
  }

  void FinalInitGrad(const Node& node, Site site, double* out) {
    const Walk walk = reads_.WalkOf(site.b, node.direction);
    const int64_t delay = node.attributes.size;
    const Row g = Read(node, 0, site);
    const int64_t n = g.n / delay;
    for (int64_t j = 0; j < delay; ++j) {
      const Link link = walk.Read(walk.length() + j, delay);
      if (link.kind != Link::Kind::kInit) continue;
      for (int64_t i = 0; i < n; ++i) out[link.index * n + i] += g[j * n + i];
    }
  }

  void InitGrad(const Node& node, Site site, double* out) {
    const Walk walk = reads_.WalkOf(site.b, node.direction);
    reads_.ForEachStep(site.b, [&](Site s) {
      const Link link = walk.Read(walk.Position(s.t), node.attributes.size);
      if (link.kind != Link::Kind::kInit) return;
      const Row g = Read(node, 0, s);
      for (int64_t i = 0; i < g.n; ++i) out[link.index * g.n + i] += g[i];
    });
  }

  static double LogSumExp(const Row& x) {
    double largest = -std::numeric_limits<double>::infinity();
    for (int64_t i = 0; i < x.n; ++i) largest = std::max(largest, x[i]);
    double sum = 0;
    for (int64_t i = 0; i < x.n; ++i) sum += std::exp(x[i] - largest);
    return largest + std::log(sum);
  }

  const Graph& graph_;
  const Bindings& bindings_;
  Reads reads_;
  std::vector<std::vector<double>> values_;
  std::vector<std::vector<State>> states_;
};

}  // namespace

std::vector<Array> InterpretNodes(const Graph& graph, const Bindings& bindings,
                                  const std::vector<NodeId>& nodes) {
  Interpreter interpreter(graph, bindings);
  std::vector<Array> values;
  for (const NodeId id : nodes) values.push_back(interpreter.Value(id));
  return values;
}

std::map<std::string, Array> Interpret(const Graph& graph, const Bindings& bindings) {
  Interpreter interpreter(graph, bindings);
  std::map<std::string, Array> values;
  for (const auto& [name, id] : graph.outputs()) values[name] = interpreter.Value(id);
  return values;
}

}  // namespace turbolstm
