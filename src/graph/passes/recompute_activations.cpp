#include <algorithm>
#include <vector>

#include "base/index.h"
#include "graph/analysis.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"

namespace turbolstm {
namespace {

class Recomputation {
 public:
  explicit Recomputation(Graph* graph)
      : graph_(*graph),
        analysis_(Analyse(*graph)),
        count_(graph->size()),
        backward_(at(count_), false),
        prepared_(at(count_), false),
        kept_(at(count_), false),
        copy_of_(at(count_), kNoNode) {}

  void Run() {
    FindBackward();
    FindPrepared();
    FindKept();
    AddCopies(FindWanted());
    for (const Region& region : analysis_.regions) {
      for (const NodeId id : region.nodes) {
        if (backward_[at(id)]) ReadCopies(id);
        if (prepared_[at(id)]) graph_.node(id).recomputed = ReadsRecomputed(id);
      }
    }
    RemoveDeadNodes(&graph_);
  }

 private:
  const Region& RegionOf(NodeId id) const {
    return analysis_.regions[at(analysis_.region_of[at(id)])];
  }

  // Whether it goes back over another loop: its cycle runs through the adjoint of a delay.
  bool IsBackwardLoop(const Region& region) const {
    if (!region.is_loop()) return false;
    const int32_t home = analysis_.region_of[at(region.nodes.front())];
    return std::any_of(region.nodes.begin(), region.nodes.end(), [&](NodeId id) {
      const std::vector<Edge>& inputs = graph_.node(id).inputs;
      return std::any_of(inputs.begin(), inputs.end(), [&](const Edge& edge) {
        return edge.delay > 0 && edge.adjoint && analysis_.region_of[at(edge.source)] == home;
      });
    });
  }

  bool ReadsBackward(NodeId id) const {
    const std::vector<Edge>& inputs = graph_.node(id).inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](const Edge& edge) {
      return backward_[at(edge.source)] || (edge.init != kNoNode && backward_[at(edge.init)]);
    });
  }

  // Such loops, and all that needs their results.
  void FindBackward() {
    for (const Region& region : analysis_.regions) {
      const bool backward =
          IsBackwardLoop(region) || std::any_of(region.nodes.begin(), region.nodes.end(),
                                                [&](NodeId id) { return ReadsBackward(id); });
      for (const NodeId id : region.nodes) backward_[at(id)] = backward;
    }
  }

  // What differentiation makes of activations for the backward pass alone, such as 1 - y * y, is
  // part of it.
  void FindPrepared() {
    std::vector<bool> read_forward(at(count_), false);
    std::vector<bool> read(at(count_), false);
    for (const auto& [name, id] : graph_.outputs()) read_forward[at(id)] = true;
    for (auto region = analysis_.regions.rbegin(); region != analysis_.regions.rend(); ++region) {
      for (auto id = region->nodes.rbegin(); id != region->nodes.rend(); ++id) {
        const Node& node = graph_.node(*id);
        const bool simple = Traits(node.op).pointwise || node.op == Op::kSlice;
        if (!region->is_loop() && simple && read[at(*id)] && !read_forward[at(*id)] &&
            !backward_[at(*id)]) {
          backward_[at(*id)] = prepared_[at(*id)] = true;
        }
        for (const Edge& edge : node.inputs) {
          (backward_[at(*id)] ? read : read_forward)[at(edge.source)] = true;
          if (edge.init != kNoNode) read_forward[at(edge.init)] = true;
        }
      }
    }
  }

  bool ReadsRecomputed(NodeId id) const {
    const std::vector<Edge>& inputs = graph_.node(id).inputs;
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](const Edge& edge) { return graph_.node(edge.source).recomputed; });
  }

  struct Readers {
    bool delayed = false;
    bool forward = false;    // any that is not part of the backward pass
    bool elsewhere = false;  // one of those outside the value's own loop
  };

  std::vector<Readers> FindReaders() const {
    std::vector<Readers> readers(at(count_));
    for (NodeId id = 0; id < count_; ++id) {
      for (const Edge& edge : graph_.node(id).inputs) {
        Readers& of = readers[at(edge.source)];
        of.delayed |= edge.delay > 0;
        of.forward |= !backward_[at(id)];
        of.elsewhere |= !backward_[at(id)] &&
                        analysis_.region_of[at(id)] != analysis_.region_of[at(edge.source)];
        if (edge.init != kNoNode) readers[at(edge.init)].delayed = true;
      }
    }
    for (const auto& [name, id] : graph_.outputs()) readers[at(id)].delayed = true;
    return readers;
  }

  // Operands come before their readers here, but within loops.
  void FindKept() {
    const std::vector<Readers> readers = FindReaders();
    for (const Region& region : analysis_.regions) {
      for (const NodeId id : region.nodes) {
        kept_[at(id)] = IsKept(id, readers[at(id)], region.is_loop());
      }
    }
  }

  bool IsKept(NodeId id, const Readers& readers, bool in_loop) const {
    const Node& node = graph_.node(id);
    if (backward_[at(id)] || node.domain != Domain::kStep || node.op == Op::kInput ||
        readers.delayed || !Traits(node.op).per_step) {
      return true;
    }
    if (in_loop) return readers.elsewhere;
    return !readers.forward || (IsArrangement(node.op) && HasKeptOperands(node));
  }

  // Takes no memory of its own where its operands are in memory.
  static bool IsArrangement(Op op) {
    return op == Op::kConcat || op == Op::kSlice || op == Op::kIdentity;
  }

  bool HasKeptOperands(const Node& node) const {
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](const Edge& edge) { return kept_[at(edge.source)]; });
  }

  // What the backward pass reads of values that are not kept, and what those are made of.
  std::vector<bool> FindWanted() const {
    std::vector<bool> wanted(at(count_), false);
    std::vector<NodeId> stack;
    const auto want_operands = [&](NodeId reader) {
      for (const Edge& edge : graph_.node(reader).inputs) {
        if (kept_[at(edge.source)] || wanted[at(edge.source)]) continue;
        wanted[at(edge.source)] = true;
        stack.push_back(edge.source);
      }
    };
    for (NodeId id = 0; id < count_; ++id) {
      if (backward_[at(id)]) want_operands(id);
    }
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      want_operands(id);
    }
    return wanted;
  }

  void AddCopies(const std::vector<bool>& wanted) {
    for (const Region& region : analysis_.regions) {
      for (const NodeId id : region.nodes) {
        if (!wanted[at(id)]) continue;
        Node copy = graph_.node(id);
        copy.name.clear();
        copy.recomputed = true;
        copy_of_[at(id)] = graph_.Add(std::move(copy));
        ReadCopies(copy_of_[at(id)]);
      }
    }
  }

  void ReadCopies(NodeId id) {
    for (Edge& edge : graph_.node(id).inputs) {
      if (edge.source < count_ && copy_of_[at(edge.source)] != kNoNode) {
        edge.source = copy_of_[at(edge.source)];
      }
    }
  }

  Graph& graph_;
  const Analysis analysis_;
  const NodeId count_;  // nodes before the copies
  std::vector<bool> backward_;
  std::vector<bool> prepared_;
  std::vector<bool> kept_;
  std::vector<NodeId> copy_of_;
};

}  // namespace

void RecomputeActivations(Graph* graph) {
  Recomputation(graph).Run();
}

}  // namespace turbolstm
