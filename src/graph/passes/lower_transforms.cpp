#include "graph/passes/lower_transforms.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "graph/shapes.h"

namespace turbolstm {
namespace {

class TransformLowering {
 public:
  explicit TransformLowering(Graph* graph) : graph_(graph) {
    for (const Node& node : graph->nodes()) {
      if (node.op == Op::kRandomMask) next_site_ = std::max(next_site_, node.attributes.site + 1);
    }
  }

  void Run() {
    const NodeId count = graph_->size();
    for (NodeId id = 0; id < count; ++id) {
      for (size_t i = 0; i < graph_->node(id).inputs.size(); ++i) LowerEdge(id, i);
    }
  }

 private:
  void LowerEdge(NodeId reader, size_t operand) {
    const Edge original = graph_->node(reader).inputs[operand];
    if (original.zoneout == 0 && original.dropout == 0) return;
    direction_ = graph_->node(reader).direction;
    Edge edge = original;
    edge.zoneout = 0;
    edge.dropout = 0;
    if (original.zoneout > 0) edge.source = Zoned(original);
    graph_->node(reader).inputs[operand] = edge;
    if (original.dropout == 0) return;
    const NodeId mask = DropoutMask(original.source, original.dropout);
    if (graph_->node(reader).op == Op::kFinal) {
      DropFinal(reader, mask);
    } else {
      const Edge dropped = Dropped(edge, mask);
      graph_->node(reader).inputs[operand] = dropped;
    }
  }

  // The carried value that stands for the source of an edge with zoneout.
  NodeId Zoned(const Edge& edge) {
    const bool has_init = edge.init != kNoNode;
    const auto key = std::make_tuple(edge.source, edge.zoneout, direction_, edge.init,
                                     has_init ? edge.delay : 0);
    const auto [known, added] = zoned_.try_emplace(key, kNoNode);
    if (!added) return known->second;

    const std::vector<int64_t> features = graph_->node(edge.source).features;
    const NodeId mask = ZoneoutMask(edge);
    const NodeId init = has_init ? LastRow(edge, ElementCount(features)) : kNoNode;
    Node sum;
    sum.op = Op::kAdd;
    sum.domain = Domain::kStep;
    sum.direction = direction_;
    sum.features = features;
    const NodeId carried = graph_->Add(std::move(sum));
    known->second = carried;
    const NodeId kept = Apply(Op::kMul, {{mask}, {.source = carried, .delay = 1, .init = init}});
    const NodeId one = Apply(Op::kConstant, {}, {.number = 1});
    const NodeId taken = Apply(Op::kMul, {{Apply(Op::kSub, {{one}, {mask}})}, {edge.source}});
    graph_->node(carried).inputs = {{kept}, {taken}};
    return carried;
  }

  // Initial values of delay d are [d * n], oldest first: the last row is that of one step before.
  NodeId LastRow(const Edge& edge, int64_t n) {
    if (edge.delay == 1) return edge.init;
    return Apply(Op::kSlice, {{edge.init}}, {.begin = (edge.delay - 1) * n, .size = n});
  }

  NodeId ZoneoutMask(const Edge& edge) {
    const auto [known, added] =
        zoneout_masks_.try_emplace({edge.source, edge.zoneout, direction_}, kNoNode);
    if (added)
      known->second = RandomMask(Domain::kStep, edge.source, edge.zoneout, 1, edge.zoneout);
    return known->second;
  }

  NodeId DropoutMask(NodeId source, float probability) {
    const auto [known, added] = dropout_masks_.try_emplace({source, probability}, kNoNode);
    if (added) {
      const double keep = 1 - static_cast<double>(probability);
      known->second = RandomMask(Domain::kBatch, source, keep, keep > 0 ? 1 / keep : 0, 1);
    }
    return known->second;
  }

  NodeId RandomMask(Domain domain, NodeId like, double keep, double scale, double mean) {
    Node mask;
    mask.op = Op::kRandomMask;
    mask.domain = domain;
    mask.direction = direction_;
    mask.features = graph_->node(like).features;
    mask.attributes.number = keep;
    mask.attributes.scale = scale;
    mask.attributes.mean = mean;
    mask.attributes.site = next_site_++;
    return graph_->Add(std::move(mask));
  }

  // The delayed value is dropped where it is made, so that a product that reads it in a loop finds
  // its operand ready: the mask is the same at all steps.
  Edge Dropped(const Edge& edge, NodeId mask) {
    Edge dropped = edge;
    dropped.source = DroppedValue(edge.source, mask);
    if (edge.init != kNoNode) dropped.init = DroppedInit(edge.init, edge.delay, mask);
    return dropped;
  }

  NodeId DroppedValue(NodeId source, NodeId mask) {
    const auto [known, added] = dropped_.try_emplace({source, mask, direction_}, kNoNode);
    // A delayed read is a step value, whatever it reads.
    if (added) known->second = Apply(Op::kMul, {{source}, {mask}}, {}, Domain::kStep);
    return known->second;
  }

  NodeId DroppedInit(NodeId init, int32_t delay, NodeId mask) {
    const auto [known, added] = dropped_inits_.try_emplace({init, delay, mask}, kNoNode);
    if (added) known->second = Apply(Op::kMul, {{init}, {ForEveryRow(mask, delay)}});
    return known->second;
  }

  // One mask for each step of a delay.
  NodeId ForEveryRow(NodeId mask, int32_t delay) {
    if (delay == 1) return mask;
    return Apply(Op::kConcat, std::vector<Edge>(static_cast<size_t>(delay), Edge{mask}));
  }

  // A final state has one row for each step of the delay, all under the same mask. The product
  // takes the place of the final state, so that all who read that see it.
  void DropFinal(NodeId final, NodeId mask) {
    Node undropped = graph_->node(final);
    undropped.name.clear();
    const int32_t rows = undropped.inputs[0].delay;
    const NodeId source = graph_->Add(std::move(undropped));
    const NodeId masks = ForEveryRow(mask, rows);
    Node& product = graph_->node(final);
    product.op = Op::kMul;
    product.inputs = {{source}, {masks}};
  }

  NodeId Apply(Op op, std::vector<Edge> operands, Attributes attributes = {},
               Domain domain = Domain::kStatic) {
    return AddInferred(graph_, {op, domain, direction_, std::move(operands), attributes});
  }

  Graph* graph_;
  int32_t next_site_ = 0;
  Direction direction_ = Direction::kForward;  // of the reader at hand
  std::map<std::tuple<NodeId, float, Direction>, NodeId> zoneout_masks_;
  std::map<std::tuple<NodeId, float, Direction, NodeId, int32_t>, NodeId> zoned_;
  std::map<std::pair<NodeId, float>, NodeId> dropout_masks_;
  std::map<std::tuple<NodeId, NodeId, Direction>, NodeId> dropped_;
  std::map<std::tuple<NodeId, int32_t, NodeId>, NodeId> dropped_inits_;
};

}  // namespace

void LowerTransforms(Graph* graph) {
  TransformLowering(graph).Run();
}

}  // namespace turbolstm
