#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "graph/shapes.h"
#include "graph/text.h"
#include "graph/text_lexer.h"

namespace turbolstm {
namespace {

constexpr size_t kMostAxes = 8;

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : lexer_(text, file) {}

  Graph Run() {
    while (lexer_.peek().kind != Token::Kind::kEnd) {
      if (lexer_.peek().kind != Token::Kind::kLineEnd) {
        Statement();
        if (lexer_.peek().kind == Token::Kind::kEnd) break;
      }
      if (lexer_.peek().kind != Token::Kind::kLineEnd) {
        lexer_.FailAt(lexer_.peek(), "the end of the line");
      }
      lexer_.Take();
    }
    Resolve();
    for (NodeId id = 0; id < graph_.size(); ++id) CheckShape(id);
    return std::move(graph_);
  }

 private:
  // The calls of an edge; the nodes may come later.
  struct PendingEdge {
    Token source;
    std::optional<Token> init;
  };

  // --- Statements.

  void Statement() {
    if (lexer_.Accept("input")) return Source(Op::kInput);
    if (lexer_.Accept("parameter")) return Source(Op::kParameter);
    if (lexer_.Accept("index")) return Index();
    if (lexer_.Accept("output")) return Output();
    Operation();
  }

  void Source(Op op) {
    Node node;
    node.op = op;
    const Token name = TakeCall("a name");
    lexer_.Expect(":");
    const Token domain = lexer_.peek();
    Type(&node);
    if (op == Op::kParameter && node.domain != Domain::kStatic) lexer_.FailAt(domain, "static");
    Finish(name, std::move(node));
  }

  void Index() {
    Node node;
    node.op = Op::kInput;
    node.type = ValueType::kIndex;
    node.features = {1};
    const Token name = TakeCall("a name");
    lexer_.Expect(":");
    node.domain = TakeDomain();
    Finish(name, std::move(node));
  }

  void Output() {
    const Token name = TakeCall("a name");
    if (name.kind == Token::Kind::kNodeNumber) lexer_.FailAt(name, "a name");
    lexer_.Expect("=");
    const Token value = TakeCall("a node");
    if (!output_names_.insert(name.text).second) {
      lexer_.FailWith(name, fmt::format("two outputs are named '{}'", name.text));
    }
    outputs_.emplace_back(name.text, value);
  }

  void Operation() {
    Node node;
    const Token name = TakeCall("input, index, parameter, output or a node");
    lexer_.Expect(":");
    Type(&node);
    lexer_.Expect("=");
    node.op = TakeOp();
    lexer_.Expect("(");
    edges_.resize(static_cast<size_t>(graph_.size()) + 1);
    if (!lexer_.Accept(")")) {
      do {
        Operand(&node);
      } while (lexer_.Accept(","));
      lexer_.Expect(")");
    }
    Finish(name, std::move(node));
  }

  // What may stand behind any statement of a node; then the node is added.
  void Finish(const Token& name, Node node) {
    std::set<std::string> seen;
    while (lexer_.peek().kind == Token::Kind::kWord) {
      const Token key = lexer_.Take();
      if (!seen.insert(key.text).second) lexer_.FailAt(key, "each attribute once");
      if (key.text == "reverse") {
        node.direction = Direction::kReverse;
      } else {
        lexer_.Expect("=");
        Attribute(key, &node.attributes);
      }
    }
    const NodeId id = graph_.Add(std::move(node));
    edges_.resize(static_cast<size_t>(graph_.size()));
    places_.push_back(name);
    if (name.kind == Token::Kind::kNodeNumber) {
      if (!numbers_.emplace(name.text, id).second) {
        lexer_.FailWith(name, fmt::format("two nodes are numbered %{}", name.text));
      }
      return;
    }
    if (!names_.emplace(name.text, id).second) {
      lexer_.FailWith(name, fmt::format("two nodes are named '{}'", name.text));
    }
    // Not through Add, which looks through all names for each.
    graph_.node(id).name = name.text;
  }

  void Attribute(const Token& key, Attributes* attributes) {
    if (key.text == "number") {
      attributes->number = TakeReal();
    } else if (key.text == "scale") {
      attributes->scale = TakeReal();
    } else if (key.text == "mean") {
      attributes->mean = TakeReal();
    } else if (key.text == "begin") {
      attributes->begin = TakeInteger(kMostElements);
    } else if (key.text == "size") {
      attributes->size = TakeInteger(kMostElements);
    } else if (key.text == "site") {
      attributes->site = static_cast<int32_t>(TakeInteger((int64_t{1} << 31) - 1));
    } else if (key.text == "domain") {
      attributes->domain = TakeDomain();
    } else {
      lexer_.FailAt(key, "number, scale, mean, begin, size, site, domain or reverse");
    }
  }

  void Operand(Node* node) {
    Edge edge;
    PendingEdge pending{TakeCall("an operand"), {}};
    if (lexer_.Accept("@")) edge.delay = static_cast<int32_t>(TakeInteger(kLargestDelay));
    if (lexer_.Accept("(")) {
      do {
        Option(&edge, &pending);
      } while (lexer_.Accept(","));
      lexer_.Expect(")");
    }
    node->inputs.push_back(edge);
    edges_.back().push_back(std::move(pending));
  }

  void Option(Edge* edge, PendingEdge* pending) {
    const Token key = lexer_.Take();
    const bool word = key.kind == Token::Kind::kWord;
    if (word && key.text == "adjoint") {
      edge->adjoint = true;
      return;
    }
    if (!word || (key.text != "init" && key.text != "zoneout" && key.text != "dropout")) {
      lexer_.FailAt(key, "init, zoneout, dropout or adjoint");
    }
    lexer_.Expect("=");
    if (key.text == "init") {
      pending->init = TakeCall("a node");
    } else {
      (key.text == "zoneout" ? edge->zoneout : edge->dropout) = TakeProbability();
    }
  }

  void Type(Node* node) {
    node->domain = TakeDomain();
    lexer_.Expect("[");
    const Token first = lexer_.peek();
    if (lexer_.Accept("]")) return;
    int64_t elements = 1;
    do {
      const Token axis = lexer_.peek();
      const int64_t n = TakeInteger(kLargestAxis);
      node->features.push_back(n);
      if (node->features.size() > kMostAxes) {
        lexer_.FailAt(axis, fmt::format("at most {} axes", kMostAxes));
      }
      if (n > 0 && elements > kMostElements / n) {
        lexer_.FailWith(first, fmt::format("a value has more than {} elements", kMostElements));
      }
      elements *= std::max<int64_t>(n, 1);
    } while (lexer_.Accept(","));
    lexer_.Expect("]");
  }

  // --- Words and numbers.

  // A node by name or number.
  Token TakeCall(std::string_view wanted) {
    const Token::Kind kind = lexer_.peek().kind;
    const bool named = kind == Token::Kind::kWord || kind == Token::Kind::kString;
    const bool numbered = kind == Token::Kind::kNodeNumber;
    if ((!named && !numbered) || lexer_.peek().text.empty()) lexer_.FailAt(lexer_.peek(), wanted);
    Token call = lexer_.Take();
    if (numbered) call.text = fmt::format("{}", Integer(call, kLargestAxis));
    return call;
  }

  Domain TakeDomain() {
    const Token token = lexer_.Take();
    for (const Domain domain : {Domain::kStatic, Domain::kBatch, Domain::kStep}) {
      if (token.kind == Token::Kind::kWord && token.text == Name(domain)) return domain;
    }
    lexer_.FailAt(token, "static, batch or step");
  }

  Op TakeOp() {
    const Token token = lexer_.Take();
    const bool source = token.text == "input" || token.text == "parameter";
    if (token.kind != Token::Kind::kWord || source) lexer_.FailAt(token, "an operator");
    try {
      return OpNamed(token.text);
    } catch (const Error&) {
      lexer_.FailAt(token, "an operator");
    }
  }

  int64_t TakeInteger(int64_t largest) { return Integer(lexer_.Take(), largest); }

  int64_t Integer(const Token& token, int64_t largest) const {
    int64_t value = -1;
    const char* end = token.text.data() + token.text.size();
    const auto result = std::from_chars(token.text.data(), end, value);
    const bool whole = result.ec == std::errc() && result.ptr == end;
    const bool numeric =
        token.kind == Token::Kind::kNumber || token.kind == Token::Kind::kNodeNumber;
    if (!numeric || !whole || value < 0 || value > largest) {
      lexer_.FailAt(token, fmt::format("an integer from 0 to {}", largest));
    }
    return value;
  }

  template <typename T>
  T Real(const Token& token) const {
    T value = 0;
    const char* end = token.text.data() + token.text.size();
    const auto result = std::from_chars(token.text.data(), end, value);
    const bool numeric = token.kind == Token::Kind::kNumber || token.kind == Token::Kind::kWord;
    if (!numeric || result.ec != std::errc() || result.ptr != end || std::isnan(value)) {
      lexer_.FailAt(token, "a number");
    }
    return value;
  }
  double TakeReal() { return Real<double>(lexer_.Take()); }

  float TakeProbability() {
    const Token token = lexer_.Take();
    const auto value = Real<float>(token);
    if (!(value >= 0 && value <= 1)) lexer_.FailAt(token, "a probability from 0 to 1");
    return value;
  }

  // --- The whole graph.

  NodeId Find(const Token& call) const {
    const bool numbered = call.kind == Token::Kind::kNodeNumber;
    const auto& known = numbered ? numbers_ : names_;
    const auto found = known.find(call.text);
    if (found == known.end()) lexer_.FailAt(call, "a node of this graph");
    return found->second;
  }

  void Resolve() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const std::vector<PendingEdge>& pending = edges_[static_cast<size_t>(id)];
      for (size_t i = 0; i < pending.size(); ++i) {
        Edge& edge = graph_.node(id).inputs[i];
        edge.source = Find(pending[i].source);
        if (pending[i].init) edge.init = Find(*pending[i].init);
      }
    }
    std::vector<std::pair<std::string, NodeId>> outputs;
    for (const auto& [name, call] : outputs_) outputs.emplace_back(name, Find(call));
    graph_.SetOutputs(std::move(outputs));
  }

  void CheckShape(NodeId id) const {
    const Node& declared = graph_.node(id);
    const Token& place = places_[static_cast<size_t>(id)];
    Node inferred = declared;
    try {
      InferShape(graph_, &inferred);
    } catch (const Error& error) {
      lexer_.FailWith(place, error.what());
    }
    if (inferred.features == declared.features && inferred.domain == declared.domain) return;
    lexer_.FailWith(place, fmt::format("got {} {} for {}, its operands make it {} {}",
                                       Name(declared.domain), declared.features, graph_.Label(id),
                                       Name(inferred.domain), inferred.features));
  }

  Lexer lexer_;
  Graph graph_;
  std::vector<std::vector<PendingEdge>> edges_;  // by node, as its operands
  std::vector<Token> places_;                    // by node
  std::vector<std::pair<std::string, Token>> outputs_;
  std::set<std::string> output_names_;
  std::unordered_map<std::string, NodeId> names_;
  std::unordered_map<std::string, NodeId> numbers_;
};

}  // namespace

Graph ParseGraph(std::string_view text, std::string_view file) {
  return Parser(text, file).Run();
}

}  // namespace turbolstm
