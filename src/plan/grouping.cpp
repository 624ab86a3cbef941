#include "plan/grouping.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "base/index.h"
#include "plan/group_order.h"

namespace turbolstm {
namespace {

// Pointwise nodes run in one program only when they have the same rows and columns.
std::pair<Domain, int64_t> ShapeClass(const Node& node) {
  return {node.domain, RowWidth(node)};
}

class Grouper {
 public:
  Grouper(const Graph& graph, const Analysis& analysis, const Uses& uses)
      : graph_(graph), analysis_(analysis), uses_(uses) {
    const auto count = at(graph.size());
    result_.roles.assign(count, Role::kNode);
    result_.group_of.assign(count, -1);
    result_.stage_of.assign(count, -1);
    home_.assign(count, -1);
    level_.assign(count, 0);
  }

  Grouping Run() {
    AssignRoles();
    FuseSums();
    AssignHomes();
    AssignLevels();
    FormGroups();
    return std::move(result_);
  }

 private:
  Role& role(NodeId id) { return result_.roles[at(id)]; }
  Role role(NodeId id) const { return result_.roles[at(id)]; }
  const Region& RegionOf(NodeId id) const {
    return analysis_.regions[at(analysis_.region_of[at(id)])];
  }
  bool InLoop(NodeId id) const { return home_[at(id)] >= 0; }
  bool IsComputed(NodeId id) const {
    return role(id) == Role::kPointwise || role(id) == Role::kFusedSum ||
           role(id) == Role::kConcat || role(id) == Role::kNode;
  }

  void AssignRoles() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (node.op == Op::kInput || node.op == Op::kParameter) {
        role(id) = Role::kSource;
      } else if (uses_.IsView(id)) {
        role(id) = Role::kView;
      } else if (node.op == Op::kConstant) {
        role(id) = OnlyReadByPrograms(id) ? Role::kInline : Role::kNode;
      } else if (Traits(node.op).pointwise ||
                 (node.op == Op::kSlice && node.domain != Domain::kStatic)) {
        role(id) = Role::kPointwise;
      } else if (node.op == Op::kConcat && node.domain != Domain::kStatic) {
        role(id) = Role::kConcat;
      }
    }
  }

  bool OnlyReadByPrograms(NodeId id) const {
    if (uses_.IsOutput(id)) return false;
    return std::all_of(uses_.of(id).begin(), uses_.of(id).end(), [&](const Use& use) {
      return Traits(graph_.node(use.reader).op).pointwise && !use.delayed && !use.as_init;
    });
  }

  // Sums that the products in them can do: read by this sum only, with at most one parameter and
  // one other value that nobody else reads.
  void FuseSums() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      std::optional<FusedSum> sum = Fuse(id);
      if (!sum) continue;
      role(id) = Role::kFusedSum;
      for (const NodeId product : sum->products) role(product) = Role::kFusedProduct;
      result_.sums[id] = std::move(*sum);
    }
  }

  bool ReadBySumOnly(NodeId id) const {
    return uses_.of(id).size() == 1 && !uses_.IsOutput(id) && !uses_.of(id)[0].delayed;
  }

  std::optional<FusedSum> Fuse(NodeId id) const {
    const Node& sum = graph_.node(id);
    if (sum.op != Op::kAdd || sum.domain == Domain::kStatic || role(id) != Role::kPointwise) {
      return std::nullopt;
    }
    FusedSum result;
    for (const Edge& edge : sum.inputs) {
      const Node& operand = graph_.node(edge.source);
      if (edge.delay > 0 || operand.features != sum.features) return std::nullopt;
      if (IsProductOf(id, edge.source)) {
        result.products.push_back(edge.source);
      } else if (operand.domain == Domain::kStatic && role(edge.source) != Role::kInline &&
                 result.bias == kNoNode) {
        result.bias = edge.source;
      } else if (result.base == kNoNode && CanHoldSum(id, edge.source)) {
        result.base = edge.source;
      } else {
        return std::nullopt;
      }
    }
    if (result.products.empty()) return std::nullopt;
    return result;
  }

  bool IsProductOf(NodeId sum, NodeId product) const {
    const bool same_region = analysis_.region_of[at(product)] == analysis_.region_of[at(sum)];
    return Traits(graph_.node(product).op).matrix && role(product) == Role::kNode &&
           graph_.node(product).domain == graph_.node(sum).domain && ReadBySumOnly(product) &&
           (same_region || !RegionOf(sum).is_loop());
  }

  bool CanHoldSum(NodeId sum, NodeId base) const {
    const bool same_loop =
        RegionOf(sum).is_loop() && analysis_.region_of[at(base)] == analysis_.region_of[at(sum)];
    return graph_.node(base).domain == graph_.node(sum).domain && ReadBySumOnly(base) &&
           !same_loop && !RegionOf(base).is_loop() &&
           (role(base) == Role::kPointwise || role(base) == Role::kFusedSum ||
            role(base) == Role::kNode);
  }

  // A loop takes in pointwise nodes before it that feed nothing else: they need no memory there.
  void AssignHomes() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (RegionOf(id).is_loop()) home_[at(id)] = analysis_.region_of[at(id)];
    }
    for (auto region = analysis_.regions.rbegin(); region != analysis_.regions.rend(); ++region) {
      if (region->is_loop()) continue;
      const NodeId id = region->nodes.front();
      if (role(id) == Role::kPointwise && graph_.node(id).domain == Domain::kStep) {
        home_[at(id)] = LoopOfReaders(id);
      }
    }
  }

  int32_t LoopOfReaders(NodeId id) const {
    if (uses_.IsOutput(id) || uses_.of(id).empty()) return -1;
    const int32_t home = home_[at(uses_.of(id)[0].reader)];
    for (const Use& use : uses_.of(id)) {
      if (use.delayed || home_[at(use.reader)] != home || role(use.reader) != Role::kPointwise ||
          ShapeClass(graph_.node(use.reader)) != ShapeClass(graph_.node(id)) ||
          uses_.ReadsPart(use.reader, id)) {
        return -1;
      }
    }
    return home;
  }

  // Calls visit(value, delayed) for all computed values that the node reads.
  template <typename Visit>
  void ForEachRead(NodeId id, Visit visit) const {
    const Node& node = graph_.node(id);
    for (const Edge& edge : node.inputs) {
      if (role(edge.source) == Role::kFusedProduct) {
        ForEachRead(edge.source, visit);
        continue;
      }
      const ResolvedEdge resolved = uses_.Resolve(node, edge);
      if (IsComputed(resolved.value)) visit(resolved.value, resolved);
      if (resolved.init != kNoNode) {
        const NodeId init = uses_.Base(resolved.init);
        ResolvedEdge read;
        read.value = init;
        if (IsComputed(init)) visit(init, read);
      }
    }
  }

  // A program hands on whole values only: a part, even a broadcast one, is read from memory.
  bool SameProgram(NodeId reader, NodeId value, const ResolvedEdge& read) const {
    return role(reader) == Role::kPointwise && role(value) == Role::kPointwise && read.delay == 0 &&
           read.width == RowWidth(graph_.node(value)) &&
           ShapeClass(graph_.node(reader)) == ShapeClass(graph_.node(value)) &&
           home_[at(reader)] == home_[at(value)] &&
           (InLoop(reader) || graph_.node(reader).recomputed == graph_.node(value).recomputed);
  }

  // Levels order the groups: a group stands behind everything it reads.
  void AssignLevels() {
    for (const Region& region : analysis_.regions) {
      if (region.is_loop()) {
        LevelOfLoop(analysis_.region_of[at(region.nodes.front())]);
      } else if (IsComputed(region.nodes.front())) {
        const NodeId id = region.nodes.front();
        ForEachRead(id, [&](NodeId value, const ResolvedEdge& read) {
          level_[at(id)] =
              std::max(level_[at(id)], level_[at(value)] + !SameProgram(id, value, read));
        });
      }
    }
  }

  void LevelOfLoop(int32_t loop) {
    int level = 0;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (home_[at(id)] != loop || !IsComputed(id)) continue;
      ForEachRead(id, [&](NodeId value, const ResolvedEdge&) {
        if (home_[at(value)] != loop) level = std::max(level, level_[at(value)] + 1);
      });
    }
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (home_[at(id)] == loop) level_[at(id)] = level;
    }
  }

  // Groups: loops, connected pointwise nodes of one level and shape, and every other node.
  void FormGroups() {
    std::vector<NodeId> leader(at(graph_.size()));
    std::iota(leader.begin(), leader.end(), 0);
    const auto find = [&](NodeId id) {
      while (leader[at(id)] != id) id = leader[at(id)] = leader[at(leader[at(id)])];
      return id;
    };
    std::map<int32_t, NodeId> loop_leader;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!IsComputed(id)) continue;
      if (InLoop(id)) {
        leader[at(id)] = loop_leader.try_emplace(home_[at(id)], id).first->second;
        continue;
      }
      ForEachRead(id, [&](NodeId value, const ResolvedEdge& read) {
        if (SameProgram(id, value, read) && level_[at(id)] == level_[at(value)]) {
          leader[at(find(id))] = find(value);
        }
      });
    }
    std::map<std::pair<int, NodeId>, std::vector<NodeId>> groups;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (IsComputed(id)) groups[{level_[at(id)], find(id)}].push_back(id);
    }
    std::vector<std::vector<NodeId>> ordered;
    for (auto& [key, nodes] : groups) ordered.push_back(std::move(nodes));
    for (const int32_t i : OrderOf(ordered)) AddGroup(std::move(ordered[static_cast<size_t>(i)]));
  }

  // Groups stand in the order of their levels; where values are recomputed, in one that keeps lives
  // short.
  std::vector<int32_t> OrderOf(const std::vector<std::vector<NodeId>>& groups) const {
    const bool recomputes = std::any_of(graph_.nodes().begin(), graph_.nodes().end(),
                                        [](const Node& node) { return node.recomputed; });
    if (recomputes) return OrderWithShortLives(Needs(groups));
    std::vector<int32_t> order(groups.size());
    std::iota(order.begin(), order.end(), 0);
    return order;
  }

  GroupNeeds Needs(const std::vector<std::vector<NodeId>>& groups) const {
    std::vector<int32_t> group_of(at(graph_.size()), -1);
    for (size_t g = 0; g < groups.size(); ++g) {
      for (const NodeId id : groups[g]) group_of[at(id)] = static_cast<int32_t>(g);
    }
    GroupNeeds result;
    for (const std::vector<NodeId>& nodes : groups) {
      std::set<int32_t> needs;
      for (const NodeId id : nodes) {
        ForEachRead(id, [&](NodeId value, const ResolvedEdge&) {
          if (group_of[at(value)] != group_of[at(id)]) needs.insert(group_of[at(value)]);
        });
      }
      const Node& first = graph_.node(nodes.front());
      const bool sum = first.op == Op::kOuter || first.op == Op::kSumRows;
      result.needs.emplace_back(needs.begin(), needs.end());
      result.kinds.push_back(InLoop(nodes.front()) ? GroupNeeds::Kind::kLoop
                             : first.recomputed    ? GroupNeeds::Kind::kRecomputed
                             : sum                 ? GroupNeeds::Kind::kSum
                                                   : GroupNeeds::Kind::kOther);
    }
    for (const auto& [name, id] : graph_.outputs()) {
      const int32_t group = group_of[at(uses_.Base(id))];
      if (group >= 0) result.outputs.push_back(group);
    }
    return result;
  }

  void AddGroup(std::vector<NodeId> nodes) {
    const auto index = static_cast<int32_t>(result_.groups.size());
    for (const NodeId id : nodes) result_.group_of[at(id)] = index;
    GroupNodes group;
    const NodeId first = nodes.front();
    if (InLoop(first)) {
      const Region& region = analysis_.regions[at(home_[at(first)])];
      group.kind = region.kind;
      group.direction = region.direction;
      group.levels = region.levels;
      group.stages = LoopStages(nodes);
    } else {
      group.kind = RegionOf(first).kind;
      group.direction = graph_.node(first).direction;
      group.stages = {{role(first) == Role::kPointwise, std::move(nodes)}};
    }
    for (size_t s = 0; s < group.stages.size(); ++s) {
      for (const NodeId id : group.stages[s].nodes) {
        result_.stage_of[at(id)] = static_cast<int32_t>(s);
      }
    }
    result_.groups.push_back(std::move(group));
  }

  // Within a step: as early as the operands allow, then pointwise nodes as late as their readers
  // allow, so that they end up in the program of those.
  std::vector<StageNodes> LoopStages(const std::vector<NodeId>& nodes) {
    const std::vector<NodeId> order = StepOrder(nodes);
    std::vector<int> slot(at(graph_.size()), 0);
    const auto inside = [&](NodeId id) { return home_[at(id)] == home_[at(nodes.front())]; };
    for (const NodeId id : order) {
      ForEachRead(id, [&](NodeId value, const ResolvedEdge& read) {
        if (!inside(value) || read.delay > 0) return;
        slot[at(id)] = std::max(slot[at(id)], slot[at(value)] + !InOneSlot(id, value, read));
      });
    }
    std::vector<int> latest(at(graph_.size()), -1);
    for (auto id = order.rbegin(); id != order.rend(); ++id) {
      if (role(*id) == Role::kPointwise && latest[at(*id)] >= 0) slot[at(*id)] = latest[at(*id)];
      ForEachRead(*id, [&](NodeId value, const ResolvedEdge& read) {
        if (!inside(value) || read.delay > 0) return;
        const int limit = slot[at(*id)] - !InOneSlot(*id, value, read);
        int& bound = latest[at(value)];
        bound = bound < 0 ? limit : std::min(bound, limit);
      });
    }
    return StagesBySlot(order, slot);
  }

  // A concatenation is complete as soon as its parts are.
  bool InOneSlot(NodeId reader, NodeId value, const ResolvedEdge& read) const {
    return SameProgram(reader, value, read) || role(reader) == Role::kConcat;
  }

  std::vector<NodeId> StepOrder(const std::vector<NodeId>& nodes) const {
    enum : uint8_t { kNew, kDone };
    std::vector<uint8_t> state(at(graph_.size()), kDone);
    for (const NodeId id : nodes) state[at(id)] = kNew;
    std::vector<NodeId> order;
    std::vector<NodeId> path;
    for (const NodeId root : nodes) {
      path.push_back(root);
      while (!path.empty()) {
        const NodeId id = path.back();
        NodeId next = kNoNode;
        if (state[at(id)] == kNew) {
          ForEachRead(id, [&](NodeId value, const ResolvedEdge& read) {
            if (read.delay == 0 && state[at(value)] == kNew) next = value;
          });
        }
        if (next != kNoNode) {
          path.push_back(next);
          continue;
        }
        if (state[at(id)] == kNew) order.push_back(id);
        state[at(id)] = kDone;
        path.pop_back();
      }
    }
    return order;
  }

  std::vector<StageNodes> StagesBySlot(const std::vector<NodeId>& order,
                                       const std::vector<int>& slot) const {
    // Products and other nodes of a slot first, then its programs, then its concatenations.
    std::map<std::tuple<int, int, int64_t>, std::vector<NodeId>> stages;
    int64_t single = 0;
    for (const NodeId id : order) {
      if (role(id) == Role::kPointwise) {
        stages[{slot[at(id)], 1, ShapeClass(graph_.node(id)).second}].push_back(id);
      } else {
        stages[{slot[at(id)], role(id) == Role::kConcat ? 2 : 0, single++}].push_back(id);
      }
    }
    std::vector<StageNodes> result;
    for (auto& [key, nodes] : stages) {
      result.push_back({std::get<1>(key) == 1, std::move(nodes)});
    }
    return result;
  }

  const Graph& graph_;
  const Analysis& analysis_;
  const Uses& uses_;
  Grouping result_;
  std::vector<int32_t> home_;  // the loop a node runs in, or -1
  std::vector<int> level_;
};

}  // namespace

Grouping GroupNodesOf(const Graph& graph, const Analysis& analysis, const Uses& uses) {
  return Grouper(graph, analysis, uses).Run();
}

}  // namespace turbolstm
