#include "plan/storage.h"

#include <algorithm>

#include "base/index.h"
#include "plan/buffer_reuse.h"

namespace turbolstm {
namespace {

class Assigner {
 public:
  Assigner(const Graph& graph, const Uses& uses, const Grouping& grouping, Precision precision,
           Reuse reuse, BoundaryType boundary)
      : graph_(graph),
        uses_(uses),
        grouping_(grouping),
        precision_(precision),
        reuse_(reuse),
        boundary_(boundary) {
    storage_.view_of.resize(at(graph.size()));
    owner_.assign(at(graph.size()), kNoNode);
  }

  Storage Run() {
    PlaceConcats();
    PlaceSums();
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (owner_[at(id)] == kNoNode && NeedsMemory(id) && !MayReuse(id)) Place(id);
    }
    for (size_t g = 0; g < grouping_.groups.size(); ++g) {
      for (const StageNodes& stage : grouping_.groups[g].stages) ReuseOperands(stage);
    }
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (owner_[at(id)] != kNoNode) PlaceWithin(id);
    }
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (role(id) == Role::kConcat) MirrorParts(id);
    }
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (role(id) == Role::kConcat) ReuseForConcat(id);
    }
    if (reuse_ == Reuse::kDeadBuffers) {
      ReuseDeadBuffers(graph_, uses_, grouping_, &storage_);
    }
    DropUnusedBuffers();
    return std::move(storage_);
  }

 private:
  Role role(NodeId id) const { return grouping_.roles[at(id)]; }
  View& view(NodeId id) { return storage_.view_of[at(id)]; }

  bool SameStage(NodeId a, NodeId b) const {
    return grouping_.group_of[at(a)] == grouping_.group_of[at(b)] &&
           grouping_.stage_of[at(a)] == grouping_.stage_of[at(b)];
  }

  NodeId ReaderStage(NodeId reader) const {
    // A product done by a sum runs where the sum runs.
    return role(reader) == Role::kFusedProduct ? uses_.of(reader)[0].reader : reader;
  }

  // A pointwise value that only its own program reads stays in registers.
  bool NeedsMemory(NodeId id) const {
    switch (role(id)) {
      case Role::kInline:
      case Role::kView:
      case Role::kFusedProduct:
        return false;
      case Role::kPointwise:
        break;
      default:
        return true;
    }
    if (uses_.IsOutput(id)) return true;
    return std::any_of(uses_.of(id).begin(), uses_.of(id).end(), [&](const Use& use) {
      return use.delayed || role(use.reader) != Role::kPointwise || !SameStage(id, use.reader) ||
             uses_.ReadsPart(use.reader, id);
    });
  }

  // A value of a loop that is read within its step only needs memory for one step.
  bool IsLocal(NodeId id) const {
    const int32_t group = grouping_.group_of[at(id)];
    if (group < 0 || uses_.IsOutput(id)) return false;
    if (grouping_.groups[static_cast<size_t>(group)].kind < RegionKind::kScan) return false;
    if (graph_.node(id).domain != Domain::kStep) return false;
    return std::all_of(uses_.of(id).begin(), uses_.of(id).end(), [&](const Use& use) {
      return !use.delayed && grouping_.group_of[at(ReaderStage(use.reader))] == group;
    });
  }

  // Carried through time by anything but a product: kept in fp32, or it would stick. So is what has
  // an initial value, since that is fp32.
  bool IsCarried(NodeId id) const {
    return std::any_of(uses_.of(id).begin(), uses_.of(id).end(), [&](const Use& use) {
      const Op op = graph_.node(use.reader).op;
      return use.has_init ||
             (use.delayed && !Traits(op).matrix && op != Op::kOuter && op != Op::kFinal);
    });
  }

  // Decides which way gradients flow: rounding near a tie would turn the answer. The sign that a
  // comparison with zero asks for survives rounding.
  bool IsCompared(NodeId id) const {
    return std::any_of(uses_.of(id).begin(), uses_.of(id).end(), [&](const Use& use) {
      const Node& reader = graph_.node(use.reader);
      switch (reader.op) {
        case Op::kMax:
        case Op::kMin:
        case Op::kGreater:
          return !IsZero(reader.inputs[0].source) && !IsZero(reader.inputs[1].source);
        default:
          return reader.op == Op::kFirstMaxMask;
      }
    });
  }

  bool IsZero(NodeId id) const {
    return graph_.node(id).op == Op::kConstant && graph_.node(id).attributes.number == 0;
  }

  DType TypeOf(NodeId id, bool local) const {
    const Node& node = graph_.node(id);
    if (node.type == ValueType::kIndex) return DType::kInt32;
    const bool outside = role(id) == Role::kSource || uses_.IsOutput(id);
    const bool narrow = node.domain == Domain::kStep && !local && node.features[0] > 1 &&
                        (!outside || boundary_ == BoundaryType::kOperand) && !IsCarried(id) &&
                        !IsCompared(id);
    return narrow ? OperandType(precision_) : DType::kFloat32;
  }

  void Place(NodeId id) {
    const Node& node = graph_.node(id);
    const bool local = IsLocal(id);
    BufferSource source = BufferSource::kComputed;
    if (node.op == Op::kInput) source = BufferSource::kInput;
    if (node.op == Op::kParameter) source = BufferSource::kParameter;
    view(id) = {static_cast<int32_t>(storage_.buffers.size()), 0, RowWidth(node)};
    storage_.buffers.push_back({graph_.Label(id), node.domain, RowWidth(node), TypeOf(id, local),
                                source, local, local ? 0 : RingOf(id)});
  }

  // Steps that have to be kept of a value that only its own loop reads; 0: all.
  int32_t RingOf(NodeId id) const {
    const int32_t group = grouping_.group_of[at(id)];
    if (group < 0 || uses_.IsOutput(id) || graph_.node(id).domain != Domain::kStep ||
        grouping_.groups[static_cast<size_t>(group)].kind < RegionKind::kScan ||
        role(id) == Role::kConcat) {
      return 0;
    }
    int32_t delay = 0;
    for (const Use& use : uses_.of(id)) {
      if (grouping_.group_of[at(ReaderStage(use.reader))] != group) return 0;
      for (const Edge& edge : graph_.node(use.reader).inputs) {
        const ResolvedEdge read = uses_.Resolve(graph_.node(use.reader), edge);
        if (read.value == id) delay = std::max(delay, read.delay);
      }
    }
    return delay + 1;
  }

  // Parts are written into the concatenation's buffer by whoever computes them.
  void PlaceConcats() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (role(id) != Role::kConcat) continue;
      Place(id);
      Buffer& buffer = storage_.buffers[static_cast<size_t>(view(id).buffer)];
      for (const Edge& edge : graph_.node(id).inputs) {
        if (!CanLieIn(id, edge)) continue;
        owner_[at(edge.source)] = id;
        buffer.local = buffer.local && IsLocal(edge.source);
        if (TypeOf(edge.source, false) == DType::kFloat32) buffer.dtype = DType::kFloat32;
      }
    }
  }

  bool CanLieIn(NodeId concat, const Edge& edge) const {
    const Role part = role(edge.source);
    const bool computed =
        part == Role::kPointwise || part == Role::kNode ||
        (part == Role::kFusedSum && grouping_.sums.at(edge.source).base == kNoNode);
    return edge.delay == 0 && computed && owner_[at(edge.source)] == kNoNode &&
           !uses_.IsOutput(edge.source) && !IsBase(edge.source) &&
           graph_.node(edge.source).domain == graph_.node(concat).domain &&
           (graph_.node(edge.source).domain != Domain::kBatch || WritesRows(edge.source));
  }

  // Batch reductions write whole buffers.
  bool WritesRows(NodeId id) const { return role(id) != Role::kNode; }

  bool IsBase(NodeId id) const {
    for (const Use& use : uses_.of(id)) {
      if (role(use.reader) == Role::kFusedSum && grouping_.sums.at(use.reader).base == id) {
        return true;
      }
    }
    return false;
  }

  // A sum with a base is done in the base's place.
  void PlaceSums() {
    for (NodeId id = graph_.size() - 1; id >= 0; --id) {
      if (role(id) != Role::kFusedSum) continue;
      // A sum that is itself the base of a later one has its place already.
      if (grouping_.sums.at(id).base == kNoNode || view(id).buffer >= 0) continue;
      Place(id);
      Buffer& buffer = storage_.buffers[static_cast<size_t>(view(id).buffer)];
      buffer.local = false;
      buffer.ring = 0;
      buffer.dtype = TypeOf(id, false);
      ShareWithBase(id);
    }
  }

  // Chains of sums share one buffer, that of the last.
  void ShareWithBase(NodeId id) {
    for (NodeId base = grouping_.sums.at(id).base; base != kNoNode;) {
      view(base) = view(id);
      const auto sum = grouping_.sums.find(base);
      base = sum == grouping_.sums.end() ? kNoNode : sum->second.base;
    }
  }

  bool MayReuse(NodeId id) const {
    return storage_.view_of[at(id)].buffer >= 0 ||
           (role(id) == Role::kPointwise && graph_.node(id).domain == Domain::kStep &&
            !uses_.IsOutput(id) && !IsLocal(id) && !IsReadDelayed(id));
  }

  bool IsReadDelayed(NodeId id) const {
    return std::any_of(uses_.of(id).begin(), uses_.of(id).end(),
                       [](const Use& use) { return use.delayed; });
  }

  // Results of a program lie where its operands lay, if nobody reads those any more.
  void ReuseOperands(const StageNodes& stage) {
    std::vector<View> free;
    if (stage.pointwise) free = FreeOperands(stage);
    for (const NodeId id : stage.nodes) {
      if (view(id).buffer >= 0 || owner_[at(id)] != kNoNode || !NeedsMemory(id)) continue;
      const auto fits = std::find_if(free.begin(), free.end(), [&](const View& place) {
        return place.width == RowWidth(graph_.node(id)) &&
               storage_.buffers[static_cast<size_t>(place.buffer)].dtype == TypeOf(id, false);
      });
      if (fits == free.end()) {
        Place(id);
      } else {
        view(id) = *fits;
        free.erase(fits);
      }
    }
  }

  std::vector<View> FreeOperands(const StageNodes& stage) const {
    std::vector<View> free;
    for (const NodeId id : stage.nodes) {
      const Node& node = graph_.node(id);
      for (const Edge& edge : node.inputs) {
        const ResolvedEdge read = uses_.Resolve(node, edge);
        if (!DiesIn(stage, read.value)) continue;
        const View whole = storage_.view_of[at(read.value)];
        const View part{whole.buffer, whole.column + read.column, read.width};
        const bool known =
            std::any_of(free.begin(), free.end(), [&](const View& place) { return place == part; });
        if (!known) free.push_back(part);
      }
    }
    // Ranges that overlap without being equal cannot be given away one by one.
    const auto overlaps = [&](const View& a) {
      return std::any_of(free.begin(), free.end(), [&](const View& b) {
        return a.buffer == b.buffer && a != b && a.column < b.column + b.width &&
               b.column < a.column + a.width;
      });
    };
    std::vector<View> result;
    std::copy_if(free.begin(), free.end(), std::back_inserter(result),
                 [&](const View& place) { return !overlaps(place); });
    return result;
  }

  bool DiesIn(const StageNodes& stage, NodeId value) const {
    const bool computed = role(value) == Role::kFusedSum || role(value) == Role::kNode ||
                          role(value) == Role::kPointwise;
    const View& place = storage_.view_of[at(value)];
    if (!computed || place.buffer < 0 || owner_[at(value)] != kNoNode || uses_.IsOutput(value)) {
      return false;
    }
    if (storage_.buffers[static_cast<size_t>(place.buffer)].local) return false;
    if (graph_.node(value).domain != Domain::kStep) return false;
    if (SameStage(value, stage.nodes.front())) return false;
    return std::all_of(uses_.of(value).begin(), uses_.of(value).end(), [&](const Use& use) {
      return !use.delayed && role(use.reader) == Role::kPointwise &&
             SameStage(use.reader, stage.nodes.front());
    });
  }

  void PlaceWithin(NodeId part) {
    const NodeId concat = owner_[at(part)];
    int64_t column = view(concat).column;
    for (const Edge& edge : graph_.node(concat).inputs) {
      if (edge.source == part && edge.delay == 0) break;
      column += graph_.node(edge.source).features[0];
    }
    view(part) = {view(concat).buffer, column, RowWidth(graph_.node(part))};
  }

  // A pointwise part that lies elsewhere is written here too by the program that computes it.
  void MirrorParts(NodeId concat) {
    const View whole = view(concat);
    int64_t column = whole.column;
    for (const Edge& edge : graph_.node(concat).inputs) {
      const Node& part = graph_.node(edge.source);
      const View place{whole.buffer, column, part.features[0]};
      column += part.features[0];
      if (edge.delay > 0 || role(edge.source) != Role::kPointwise ||
          part.domain != graph_.node(concat).domain ||
          storage_.buffers[static_cast<size_t>(whole.buffer)].local) {
        continue;
      }
      const View& own = view(edge.source);
      if (own == place) continue;
      storage_.mirrors[edge.source].push_back(place);
    }
  }

  // A concatenation whose parts one program computes may lie where operands of that program lay,
  // if nobody reads those any more: the gradients of gates where the gates were.
  void ReuseForConcat(NodeId concat) {
    const int32_t own = view(concat).buffer;
    if (storage_.buffers[static_cast<size_t>(own)].local) return;
    const Node& node = graph_.node(concat);
    const NodeId first = node.inputs.front().source;
    const int64_t width = graph_.node(first).features[0];
    for (const Edge& edge : node.inputs) {
      if (!IsWrittenInto(own, edge.source) || role(edge.source) != Role::kPointwise ||
          !SameStage(edge.source, first) || graph_.node(edge.source).features[0] != width) {
        return;
      }
    }
    std::vector<int32_t> places;
    for (size_t buffer = 0; buffer < storage_.buffers.size(); ++buffer) {
      const auto id = static_cast<int32_t>(buffer);
      if (id != own && IsSameKind(id, own) && DiesWholeIn(id, first, width)) places.push_back(id);
    }
    if (places.empty()) return;
    const auto read =
        std::find_if(places.begin(), places.end(), [&](int32_t id) { return IsReadIn(id, first); });
    MoveBuffer(own, read == places.end() ? places.front() : *read);
  }

  // Whether the program of `stage` reads it: the shorter life, beside what has been dead for long.
  bool IsReadIn(int32_t buffer, NodeId stage) const {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (storage_.view_of[at(id)].buffer != buffer) continue;
      const std::vector<Use>& uses = uses_.of(id);
      if (std::any_of(uses.begin(), uses.end(),
                      [&](const Use& use) { return SameStage(ReaderStage(use.reader), stage); })) {
        return true;
      }
    }
    return false;
  }

  // Whether whoever computes the value writes it into the buffer.
  bool IsWrittenInto(int32_t buffer, NodeId id) const {
    if (storage_.view_of[at(id)].buffer == buffer) return true;
    const auto mirrors = storage_.mirrors.find(id);
    return mirrors != storage_.mirrors.end() &&
           std::any_of(mirrors->second.begin(), mirrors->second.end(),
                       [&](const View& mirror) { return mirror.buffer == buffer; });
  }

  bool IsSameKind(int32_t a, int32_t b) const {
    const Buffer& x = storage_.buffers[static_cast<size_t>(a)];
    const Buffer& y = storage_.buffers[static_cast<size_t>(b)];
    return x.width == y.width && x.dtype == y.dtype && x.domain == y.domain && !x.local &&
           x.ring == 0 && y.ring == 0 && x.source == BufferSource::kComputed;
  }

  // Whether every value in the buffer lies in columns of `width`, and is last read by the program
  // of `stage`, if at all, or before it. A buffer without values is no place to save.
  bool DiesWholeIn(int32_t buffer, NodeId stage, int64_t width) const {
    bool holds_any = false;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (storage_.view_of[at(id)].buffer != buffer) continue;
      if (!DiesBy(id, stage, width)) return false;
      holds_any = true;
    }
    if (!holds_any) return false;
    for (const auto& [id, mirrors] : storage_.mirrors) {
      for (const View& mirror : mirrors) {
        if (mirror.buffer == buffer) return false;
      }
    }
    return true;
  }

  bool DiesBy(NodeId id, NodeId stage, int64_t width) const {
    const int32_t group = grouping_.group_of[at(stage)];
    if (uses_.IsOutput(id) || grouping_.group_of[at(id)] >= group) return false;
    for (const Use& use : uses_.of(id)) {
      const NodeId reader = ReaderStage(use.reader);
      if (grouping_.group_of[at(reader)] < group) continue;
      if (use.delayed || role(use.reader) != Role::kPointwise || !SameStage(reader, stage) ||
          !ReadsAligned(use.reader, id, width)) {
        return false;
      }
    }
    return true;
  }

  bool ReadsAligned(NodeId reader, NodeId value, int64_t width) const {
    const int64_t begin = storage_.view_of[at(value)].column;
    for (const Edge& edge : graph_.node(reader).inputs) {
      const ResolvedEdge read = uses_.Resolve(graph_.node(reader), edge);
      const bool aligned = read.width == width && (begin + read.column) % width == 0;
      if (read.value == value && !aligned) return false;
    }
    return true;
  }

  void MoveBuffer(int32_t from, int32_t to) {
    for (View& place : storage_.view_of) {
      if (place.buffer == from) place.buffer = to;
    }
    for (auto& [id, mirrors] : storage_.mirrors) {
      for (View& mirror : mirrors) {
        if (mirror.buffer == from) mirror.buffer = to;
      }
    }
  }

  void DropUnusedBuffers() {
    std::vector<int32_t> new_id(storage_.buffers.size(), -1);
    std::vector<Buffer> kept;
    for (View& place : storage_.view_of) {
      if (place.buffer < 0) continue;
      int32_t& id = new_id[static_cast<size_t>(place.buffer)];
      if (id < 0) {
        id = static_cast<int32_t>(kept.size());
        kept.push_back(std::move(storage_.buffers[static_cast<size_t>(place.buffer)]));
      }
      place.buffer = id;
    }
    for (auto& [id, mirrors] : storage_.mirrors) {
      for (View& mirror : mirrors) mirror.buffer = new_id[static_cast<size_t>(mirror.buffer)];
    }
    storage_.buffers = std::move(kept);
  }

  const Graph& graph_;
  const Uses& uses_;
  const Grouping& grouping_;
  Precision precision_;
  Reuse reuse_;
  BoundaryType boundary_;
  Storage storage_;
  std::vector<NodeId> owner_;  // the concatenation that a part lies in
};

}  // namespace

Storage AssignStorage(const Graph& graph, const Uses& uses, const Grouping& grouping,
                      Precision precision, Reuse reuse, BoundaryType boundary) {
  return Assigner(graph, uses, grouping, precision, reuse, boundary).Run();
}

}  // namespace turbolstm
