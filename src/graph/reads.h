#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "graph/interpreter.h"
#include "graph/walk.h"

namespace turbolstm {

// Which rows of which nodes a row of a node is made of, under given lengths and resets.
class Reads {
 public:
  // One row of a node's value: row t * B + b of a Step value, b of a Batch value, 0 of a Static
  // one.
  struct Cell {
    NodeId node = kNoNode;
    int64_t row = 0;
  };

  // Where a row stands in the batch; -1 where its domain has no such axis.
  struct Site {
    int64_t t = -1;
    int64_t b = -1;
  };

  // What an operand reads at a site: a row of a node from element `offset` on; no node: zeros.
  struct Source {
    Cell cell;
    int64_t offset = 0;
  };

  // Both must outlive this.
  Reads(const Graph& graph, const Bindings& bindings) : graph_(graph), bindings_(bindings) {}

  int64_t Length(int64_t b) const {
    return bindings_.lengths.empty() ? bindings_.steps : bindings_.lengths[static_cast<size_t>(b)];
  }
  Walk WalkOf(int64_t b, Direction direction) const;

  int64_t RowOf(Domain domain, Site site) const;
  Site SiteOf(Domain domain, int64_t row) const;

  template <typename F>
  void ForEachStep(int64_t b, F f) const {
    for (int64_t t = 0; t < Length(b); ++t) f(Site{t, b});
  }

  // All rows that exist: padded steps do not.
  template <typename F>
  void ForEachRow(Domain domain, F f) const {
    if (domain == Domain::kStatic) return f(Site{});
    for (int64_t b = 0; b < bindings_.batch; ++b) {
      if (domain == Domain::kBatch) {
        f(Site{-1, b});
      } else {
        ForEachStep(b, f);
      }
    }
  }

  // The sites whose operands make up this row.
  template <typename F>
  void ForEachSite(const Node& node, int64_t row, F f) const {
    const Site site = SiteOf(node.domain, row);
    switch (node.op) {
      case Op::kOuter:
      case Op::kSumRows:
      case Op::kScatterAdd:
        return ForEachRow(OperandDomain(node), f);
      case Op::kSumTime:
      case Op::kInitGrad:
      case Op::kFirstMaxMask:
        return ForEachStep(site.b, f);
      default:
        return f(site);
    }
  }

  // What the reader's operand reads at a site of the reader.
  Source Find(const Node& reader, const Edge& edge, Site site) const;
  // What row `j` of the final state of sequence b is.
  Source FindFinal(const Node& final, int64_t b, int64_t j) const;

  // All that this row is made of.
  template <typename F>
  void ForEachSource(Cell cell, F f) const {
    const Node& node = graph_.node(cell.node);
    if (node.op == Op::kFinal) {
      for (int64_t j = 0; j < node.inputs[0].delay; ++j) f(FindFinal(node, cell.row, j));
      return;
    }
    ForEachSite(node, cell.row, [&](Site site) {
      for (const Edge& edge : node.inputs) f(Find(node, edge, site));
    });
  }

 private:
  Source Follow(const Edge& edge, Link link, int64_t b) const;
  Domain OperandDomain(const Node& node) const;

  const Graph& graph_;
  const Bindings& bindings_;
};

}  // namespace turbolstm
