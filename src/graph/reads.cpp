#include "graph/reads.h"

#include <algorithm>

namespace turbolstm {

int64_t Reads::RowOf(Domain domain, Site site) const {
  switch (domain) {
    case Domain::kStatic:
      return 0;
    case Domain::kBatch:
      return site.b;
    case Domain::kStep:
      return site.t * bindings_.batch + site.b;
  }
  return 0;
}

Reads::Site Reads::SiteOf(Domain domain, int64_t row) const {
  switch (domain) {
    case Domain::kStatic:
      return {};
    case Domain::kBatch:
      return {-1, row};
    case Domain::kStep:
      return {row / bindings_.batch, row % bindings_.batch};
  }
  return {};
}

Domain Reads::OperandDomain(const Node& node) const {
  Domain domain = Domain::kStatic;
  for (const Edge& edge : node.inputs) {
    domain = std::max(domain, edge.delay > 0 ? Domain::kStep : graph_.node(edge.source).domain);
  }
  return domain;
}

Walk Reads::WalkOf(int64_t b, Direction direction) const {
  const uint8_t* resets = bindings_.resets.empty() ? nullptr : bindings_.resets.data() + b;
  return Walk(Length(b), direction, resets, bindings_.batch);
}

Reads::Source Reads::Find(const Node& reader, const Edge& edge, Site site) const {
  if (edge.delay == 0) return {{edge.source, RowOf(graph_.node(edge.source).domain, site)}};
  const Direction direction = edge.adjoint ? Opposite(reader.direction) : reader.direction;
  const Walk walk = WalkOf(site.b, direction);
  const int64_t position = walk.Position(site.t);
  const Link link =
      edge.adjoint ? walk.ReadAhead(position, edge.delay) : walk.Read(position, edge.delay);
  return Follow(edge, link, site.b);
}

Reads::Source Reads::FindFinal(const Node& final, int64_t b, int64_t j) const {
  const Edge& edge = final.inputs[0];
  const Walk walk = WalkOf(b, final.direction);
  return Follow(edge, walk.Read(walk.length() + j, edge.delay), b);
}

Reads::Source Reads::Follow(const Edge& edge, Link link, int64_t b) const {
  const Node& source = graph_.node(edge.source);
  if (link.kind == Link::Kind::kStep) {
    return {{edge.source, RowOf(source.domain, {link.index, b})}};
  }
  if (link.kind == Link::Kind::kNothing || edge.init == kNoNode) return {};
  const Domain domain = graph_.node(edge.init).domain;
  return {{edge.init, RowOf(domain, {-1, b})}, link.index * ElementCount(source.features)};
}

}  // namespace turbolstm
