#include "graph/analysis.h"

#include <algorithm>

#include "base/error.h"
#include "graph/shapes.h"

namespace turbolstm {
namespace {

// Calls visit(source, delay) for all that the node reads, initial values included.
template <typename Visit>
void ForEachSource(const Node& node, Visit visit) {
  for (const Edge& edge : node.inputs) {
    visit(edge.source, edge.delay);
    if (edge.init != kNoNode) visit(edge.init, 0);
  }
}

// Tarjan's strongly connected components without recursion, in topological order.
class Components {
 public:
  explicit Components(const Graph& graph)
      : graph_(graph),
        index_(static_cast<size_t>(graph.size()), -1),
        low_(index_.size(), 0),
        on_stack_(index_.size(), false) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (index_[at(id)] < 0) Search(id);
    }
  }

  std::vector<std::vector<NodeId>> Take() { return std::move(components_); }

 private:
  struct Frame {
    NodeId id;
    std::vector<NodeId> sources;
    size_t next = 0;
  };
  static size_t at(NodeId id) { return static_cast<size_t>(id); }

  void Enter(NodeId id) {
    index_[at(id)] = low_[at(id)] = counter_++;
    stack_.push_back(id);
    on_stack_[at(id)] = true;
    Frame frame{id, {}, 0};
    ForEachSource(graph_.node(id),
                  [&](NodeId source, int32_t) { frame.sources.push_back(source); });
    frames_.push_back(std::move(frame));
  }

  void Search(NodeId root) {
    Enter(root);
    while (!frames_.empty()) {
      Frame& frame = frames_.back();
      if (frame.next == frame.sources.size()) {
        Leave();
        continue;
      }
      const NodeId source = frame.sources[frame.next++];
      const NodeId id = frame.id;
      if (index_[at(source)] < 0) {
        Enter(source);
      } else if (on_stack_[at(source)]) {
        low_[at(id)] = std::min(low_[at(id)], index_[at(source)]);
      }
    }
  }

  void Leave() {
    const NodeId id = frames_.back().id;
    frames_.pop_back();
    if (!frames_.empty()) {
      const NodeId parent = frames_.back().id;
      low_[at(parent)] = std::min(low_[at(parent)], low_[at(id)]);
    }
    if (low_[at(id)] != index_[at(id)]) return;
    std::vector<NodeId>& component = components_.emplace_back();
    NodeId member = kNoNode;
    do {
      member = stack_.back();
      stack_.pop_back();
      on_stack_[at(member)] = false;
      component.push_back(member);
    } while (member != id);
    std::sort(component.begin(), component.end());
  }

  const Graph& graph_;
  std::vector<int32_t> index_;
  std::vector<int32_t> low_;
  std::vector<bool> on_stack_;
  std::vector<NodeId> stack_;
  std::vector<Frame> frames_;
  std::vector<std::vector<NodeId>> components_;
  int32_t counter_ = 0;
};

// One component of the graph on its way to a region.
class RegionBuilder {
 public:
  RegionBuilder(const Graph& graph, const std::vector<int32_t>& component_of, int32_t component,
                std::vector<NodeId> members)
      : graph_(graph),
        component_of_(component_of),
        component_(component),
        members_(std::move(members)) {}

  Region Build() {
    Region region;
    region.direction = graph_.node(members_.front()).direction;
    region.nodes = ZeroDelayOrder();
    const bool loop = IsLoop();
    if (loop) RequireLegalLoop();
    region.kind = Kind(loop, region.nodes);
    region.levels = Levels(region.nodes);
    return region;
  }

 private:
  bool Inside(NodeId id) const { return component_of_[static_cast<size_t>(id)] == component_; }

  bool IsLoop() const {
    if (members_.size() > 1) return true;
    bool self = false;
    ForEachSource(graph_.node(members_.front()),
                  [&](NodeId source, int32_t) { self |= source == members_.front(); });
    return self;
  }

  // Depth first over edges without delay; a node met again on the path closes an illegal cycle.
  std::vector<NodeId> ZeroDelayOrder() const {
    enum : uint8_t { kNew, kOpen, kDone };
    std::vector<uint8_t> state(members_.size(), kNew);
    std::vector<NodeId> order;
    std::vector<NodeId> path;
    const auto position = [&](NodeId id) {
      return static_cast<size_t>(std::lower_bound(members_.begin(), members_.end(), id) -
                                 members_.begin());
    };
    for (const NodeId root : members_) {
      if (state[position(root)] != kNew) continue;
      path.push_back(root);
      while (!path.empty()) {
        const NodeId id = path.back();
        state[position(id)] = kOpen;
        NodeId next = kNoNode;
        ForEachSource(graph_.node(id), [&](NodeId source, int32_t delay) {
          if (delay > 0 || !Inside(source)) return;
          if (state[position(source)] == kOpen) FailCycle(path, source);
          if (state[position(source)] == kNew) next = source;
        });
        if (next != kNoNode) {
          path.push_back(next);
          continue;
        }
        state[position(id)] = kDone;
        order.push_back(id);
        path.pop_back();
      }
    }
    return order;
  }

  [[noreturn]] void FailCycle(const std::vector<NodeId>& path, NodeId closing) const {
    // The path runs from readers to sources: print it the way values flow.
    std::string text = graph_.Label(closing);
    for (auto it = path.rbegin(); it != path.rend(); ++it) {
      text += " -> " + graph_.Label(*it);
      if (*it == closing) break;
    }
    Fail("[graph] cycle without delay: {}", text);
  }

  std::string Labels() const {
    std::vector<std::string> labels;
    for (const NodeId id : members_) labels.push_back(graph_.Label(id));
    return fmt::format("{}", fmt::join(labels, ", "));
  }

  void RequireLegalLoop() const {
    const Direction direction = graph_.node(members_.front()).direction;
    for (const NodeId id : members_) {
      const Node& node = graph_.node(id);
      TL_CHECK(node.domain == Domain::kStep && Traits(node.op).per_step,
               "[graph] {} needs all steps at once and cannot be in the cycle of {}",
               graph_.Label(id), Labels());
      TL_CHECK(node.direction == direction,
               "[graph] {} and {} walk in opposite directions in the cycle of {}",
               graph_.Label(members_.front()), graph_.Label(id), Labels());
    }
  }

  static RegionKind LoopKind(bool linear, bool matrix) {
    if (matrix) return RegionKind::kGemmLoop;
    return linear ? RegionKind::kScan : RegionKind::kPointwiseLoop;
  }

  RegionKind Kind(bool loop, const std::vector<NodeId>& order) const {
    if (!loop) return RegionKind::kTimeParallel;
    bool linear = true;
    bool matrix = false;
    for (const NodeId id : order) {
      matrix = matrix || Traits(graph_.node(id).op).matrix;
      linear = linear && IsLinearInState(graph_.node(id));
    }
    return LoopKind(linear, matrix);
  }

  bool IsLinearInState(const Node& node) const {
    const auto inside = [&](size_t i) { return Inside(node.inputs[i].source); };
    switch (node.op) {
      case Op::kIdentity:
      case Op::kAdd:
      case Op::kSub:
      case Op::kNeg:
        return true;
      case Op::kMul:
        return !(inside(0) && inside(1));
      case Op::kDiv:
        return !inside(1);
      case Op::kSelect:
        return !inside(0);
      default:
        return false;
    }
  }

  int Levels(const std::vector<NodeId>& order) const {
    std::vector<int> depth(order.size(), 0);
    const auto depth_of = [&](NodeId id) {
      return depth[static_cast<size_t>(std::find(order.begin(), order.end(), id) - order.begin())];
    };
    int deepest = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const Node& node = graph_.node(order[i]);
      for (const Edge& edge : node.inputs) {
        if (edge.delay == 0 && Inside(edge.source)) {
          depth[i] = std::max(depth[i], depth_of(edge.source));
        }
      }
      depth[i] += Traits(node.op).matrix;
      deepest = std::max(deepest, depth[i]);
    }
    return deepest;
  }

  const Graph& graph_;
  const std::vector<int32_t>& component_of_;
  int32_t component_;
  std::vector<NodeId> members_;
};

void CheckNodes(const Graph& graph) {
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    TL_CHECK(node.op != Op::kIdentity || !node.inputs.empty(),
             "[graph] state '{}' is read but never defined", graph.Label(id));
    Node inferred = node;
    InferShape(graph, &inferred);
    TL_CHECK(inferred.features == node.features && inferred.domain == node.domain,
             "[graph] {} is declared {} {}, its operands make it {} {}", graph.Label(id),
             Name(node.domain), node.features, Name(inferred.domain), inferred.features);
  }
}

// A single Static node made of parameters, constants and other hoisted nodes only.
bool IsHoisted(const Graph& graph, const Analysis& analysis, NodeId id) {
  const Node& node = graph.node(id);
  if (node.domain != Domain::kStatic || node.op == Op::kRowCount) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&](const Edge& edge) {
    const auto region = static_cast<size_t>(analysis.region_of[static_cast<size_t>(edge.source)]);
    return analysis.regions[region].kind == RegionKind::kHoisted;
  });
}

}  // namespace

std::string_view Name(RegionKind kind) {
  switch (kind) {
    case RegionKind::kHoisted:
      return "Hoisted";
    case RegionKind::kTimeParallel:
      return "TimeParallel";
    case RegionKind::kScan:
      return "Scan";
    case RegionKind::kPointwiseLoop:
      return "PointwiseLoop";
    case RegionKind::kGemmLoop:
      return "GemmLoop";
  }
  Fail("[graph] unknown region kind {}", static_cast<int>(kind));
}

Analysis Analyse(const Graph& graph) {
  CheckNodes(graph);
  Analysis analysis;
  analysis.region_of.resize(static_cast<size_t>(graph.size()), -1);
  std::vector<std::vector<NodeId>> components = Components(graph).Take();
  for (size_t i = 0; i < components.size(); ++i) {
    for (const NodeId id : components[i]) {
      analysis.region_of[static_cast<size_t>(id)] = static_cast<int32_t>(i);
    }
  }
  for (size_t i = 0; i < components.size(); ++i) {
    analysis.regions.push_back(
        RegionBuilder(graph, analysis.region_of, static_cast<int32_t>(i), std::move(components[i]))
            .Build());
    Region& region = analysis.regions.back();
    if (!region.is_loop() && IsHoisted(graph, analysis, region.nodes.front())) {
      region.kind = RegionKind::kHoisted;
    }
  }
  return analysis;
}

}  // namespace turbolstm
