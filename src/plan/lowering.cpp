#include "plan/lowering.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "base/index.h"
#include "graph/passes/rewrite.h"
#include "plan/fusion.h"
#include "plan/grouping.h"
#include "plan/recompute.h"
#include "plan/storage.h"
#include "plan/uses.h"

namespace turbolstm {
namespace {

// What is legal in a graph and yet has no place in rows of numbers.
void CheckRunnable(const Graph& graph) {
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    const bool has_rows = node.domain != Domain::kStatic;
    TL_CHECK(!has_rows || node.features.size() == 1,
             "[lowering] {} is {} {}, wants one feature axis", graph.Label(id), Name(node.domain),
             node.features);
    TL_CHECK(has_rows || (node.op != Op::kRandomMask && node.op != Op::kLengths),
             "[lowering] {} is static, wants batch or step", graph.Label(id));
    const bool reads_table = Traits(node.op).matrix || node.op == Op::kGather;
    TL_CHECK(!reads_table || node.inputs[0].delay == 0,
             "[lowering] {} reads {}@{}, wants a matrix without delay", graph.Label(id),
             graph.Label(node.inputs[0].source), node.inputs[0].delay);
  }
  for (const auto& [name, id] : graph.outputs()) {
    TL_CHECK(graph.node(id).type == ValueType::kFloat,
             "[lowering] output '{}' is {}, which holds indices, wants numbers", name,
             graph.Label(id));
  }
}

class Lowering {
 public:
  Lowering(const Graph& graph, Precision precision, Reuse reuse, BoundaryType boundary)
      : graph_(graph),
        analysis_(Analyse(graph)),
        uses_(graph),
        grouping_(GroupNodesOf(graph, analysis_, uses_)),
        storage_(AssignStorage(graph, uses_, grouping_, precision, reuse, boundary)) {
    result_.precision = precision;
    result_.boundary = boundary;
  }

  LoweredGraph Run() {
    for (const GroupNodes& group : grouping_.groups) AddGroup(group);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (node.op == Op::kInput || node.op == Op::kParameter) {
        result_.inputs.push_back({node.name, view(id), node.domain, node.features});
      }
    }
    for (const auto& [name, id] : graph_.outputs()) {
      const Node& node = graph_.node(id);
      result_.outputs.push_back({name, view(id), node.domain, node.features});
    }
    result_.buffers = std::move(storage_.buffers);
    return std::move(result_);
  }

 private:
  const View& view(NodeId id) const { return storage_.view_of[at(id)]; }
  Role role(NodeId id) const { return grouping_.roles[at(id)]; }

  void AddGroup(const GroupNodes& nodes) {
    Group group;
    group.kind = nodes.kind;
    group.direction = nodes.direction;
    group.levels = nodes.levels;
    group.recomputed = !group.is_loop() && graph_.node(nodes.stages[0].nodes[0]).recomputed;
    for (const StageNodes& stage : nodes.stages) {
      if (stage.pointwise) {
        group.stages.push_back(FusePointwise(graph_, uses_, storage_, stage.nodes));
      } else {
        AddNodeStages(stage.nodes.front(), &group.stages);
      }
    }
    if (group.stages.empty()) return;
    // A domain is that of the rows walked over: a sum over steps walks over steps.
    group.domain = Domain::kStatic;
    for (const Stage& stage : group.stages) {
      group.domain = std::max(group.domain, stage.domain);
    }
    group.name = GroupName(nodes, group);
    result_.groups.push_back(std::move(group));
  }

  std::string GroupName(const GroupNodes& nodes, const Group& group) const {
    if (!group.is_loop()) return group.stages.front().name;
    for (const StageNodes& stage : nodes.stages) {
      for (const NodeId id : stage.nodes) {
        if (!graph_.node(id).name.empty()) return "loop " + graph_.node(id).name;
      }
    }
    return "loop " + group.stages.front().name;
  }

  void AddNodeStages(NodeId id, std::vector<Stage>* stages) {
    const Node& node = graph_.node(id);
    if (role(id) == Role::kConcat) {
      AddCopies(id, stages);
    } else if (role(id) == Role::kFusedSum) {
      AddSum(id, stages);
    } else if (Traits(node.op).matrix) {
      stages->push_back(Product(id, view(id)));
    } else {
      stages->push_back(NodeStage(id));
    }
  }

  // Parts that do not lie in the concatenation's buffer already.
  void AddCopies(NodeId id, std::vector<Stage>* stages) {
    const Node& node = graph_.node(id);
    int64_t column = view(id).column;
    for (const Edge& edge : node.inputs) {
      const int64_t width = graph_.node(edge.source).features[0];
      const View to{view(id).buffer, column, width};
      const View& from = view(edge.source);
      const bool in_place = edge.delay == 0 && !uses_.IsView(edge.source) &&
                            (from == to || IsMirrored(edge.source, to));
      if (!in_place) {
        stages->push_back(
            CopyStage(OperandOf(graph_, uses_, storage_, node, edge), to, node.domain));
        stages->back().name = graph_.Label(id);
      }
      column += width;
    }
  }

  bool IsMirrored(NodeId part, const View& to) const {
    const auto mirrors = storage_.mirrors.find(part);
    return mirrors != storage_.mirrors.end() &&
           std::any_of(mirrors->second.begin(), mirrors->second.end(),
                       [&](const View& mirror) { return mirror == to; });
  }

  void AddSum(NodeId id, std::vector<Stage>* stages) {
    const FusedSum& sum = grouping_.sums.at(id);
    bool accumulate = sum.base != kNoNode;
    for (const NodeId product : sum.products) {
      Stage stage = Product(product, view(id));
      stage.name = graph_.Label(id);
      stage.accumulate = accumulate;
      if (product == sum.products.front() && sum.bias != kNoNode) stage.bias = view(sum.bias);
      accumulate = true;
      stages->push_back(std::move(stage));
    }
  }

  Stage Product(NodeId id, const View& to) {
    const Node& node = graph_.node(id);
    Stage stage;
    stage.kind = Stage::Kind::kMatMul;
    stage.name = graph_.Label(id);
    stage.op = node.op;
    stage.domain = node.domain;
    stage.features = node.features;
    stage.inputs = {OperandOf(graph_, uses_, storage_, node, node.inputs[1])};
    stage.outputs = {to};
    stage.weight = Packed(node.inputs[0].source, node.op == Op::kMatMulTransposed);
    return stage;
  }

  int32_t Packed(NodeId matrix, bool transposed) {
    const auto [it, added] =
        packed_.try_emplace({matrix, transposed}, static_cast<int32_t>(result_.weights.size()));
    if (added) {
      result_.weights.push_back(
          {view(matrix), graph_.node(matrix).features, transposed, IsHoisted(matrix)});
    }
    return it->second;
  }

  bool IsHoisted(NodeId id) const {
    return analysis_.regions[at(analysis_.region_of[at(id)])].kind == RegionKind::kHoisted;
  }

  Stage NodeStage(NodeId id) {
    const Node& node = graph_.node(id);
    Stage stage;
    stage.kind = Stage::Kind::kNode;
    stage.name = graph_.Label(id);
    stage.op = node.op;
    stage.attributes = node.attributes;
    if (node.op == Op::kGather) {
      stage.attributes.size = graph_.node(node.inputs[0].source).features[0];  // entries
    }
    stage.features = node.features;
    stage.domain = node.domain;
    for (const Edge& edge : node.inputs) {
      if (node.domain == Domain::kStatic && graph_.node(edge.source).domain == Domain::kStatic) {
        Operand operand;
        operand.view = view(edge.source);
        stage.inputs.push_back(operand);
      } else {
        stage.inputs.push_back(OperandOf(graph_, uses_, storage_, node, edge));
      }
      const Domain domain = edge.delay > 0 ? Domain::kStep : graph_.node(edge.source).domain;
      if (!Traits(node.op).per_step) stage.domain = std::max(stage.domain, domain);
    }
    // These have no delayed operand but walk like the edge that they are adjoint to.
    if (node.op == Op::kFinalGrad || node.op == Op::kFinalInitGrad || node.op == Op::kInitGrad) {
      stage.inputs[0].direction = node.direction;
    }
    stage.outputs = {view(id)};
    return stage;
  }

  const Graph& graph_;
  Analysis analysis_;
  Uses uses_;
  Grouping grouping_;
  Storage storage_;
  LoweredGraph result_;
  std::map<std::pair<NodeId, bool>, int32_t> packed_;
};

}  // namespace

std::string_view Name(Precision precision) {
  static constexpr std::array<std::string_view, 5> kNames{"fp32", "tf32", "bf16", "fp16", "bf16x6"};
  return kNames[static_cast<size_t>(precision)];
}

Precision PrecisionNamed(std::string_view name) {
  for (const Precision precision : kPrecisions) {
    if (Name(precision) == name) return precision;
  }
  Fail("[precision] there is no '{}', wants fp32, tf32, bf16, fp16 or bf16x6", name);
}

DType OperandType(Precision precision) {
  switch (precision) {
    case Precision::kBFloat16:
      return DType::kBFloat16;
    case Precision::kFloat16:
      return DType::kFloat16;
    case Precision::kFloat32:
    case Precision::kTf32:
    case Precision::kBf16x6:
      break;
  }
  return DType::kFloat32;
}

LoweredGraph Lower(const Graph& graph, Precision precision, Reuse reuse, BoundaryType boundary) {
  CheckRunnable(graph);
  Graph sorted = graph;
  RemoveDeadNodes(&sorted);
  RecomputeCheapValues(&sorted);
  return Lowering(sorted, precision, reuse, boundary).Run();
}

}  // namespace turbolstm
