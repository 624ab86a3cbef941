#include "plan/buffer_reuse.h"

#include <algorithm>
#include <set>

#include "base/index.h"

namespace turbolstm {
namespace {

using Groups = std::set<int32_t>;

class BufferReuse {
 public:
  BufferReuse(const Graph& graph, const Uses& uses, const Grouping& grouping, Storage* storage)
      : graph_(graph), uses_(uses), grouping_(grouping), storage_(*storage) {}

  void Run() {
    FindNeeded();
    FindValues();
    const auto count = static_cast<int32_t>(storage_.buffers.size());
    for (int32_t own = 0; own < count; ++own) {
      if (!IsWhole(own) || values_of_[at(own)].empty()) continue;
      const Groups writers = WritersOf(own);
      for (int32_t other = 0; other < count; ++other) {
        if (other == own || !IsSameKind(own, other) || !DiesBefore(other, writers)) continue;
        Move(own, other);
        break;
      }
    }
  }

 private:
  const Buffer& buffer(int32_t id) const { return storage_.buffers[at(id)]; }
  int32_t GroupOf(NodeId id) const { return grouping_.group_of[at(id)]; }

  // A product done by a sum runs where the sum runs.
  int32_t ReaderGroup(NodeId reader) const {
    const bool fused = grouping_.roles[at(reader)] == Role::kFusedProduct;
    return GroupOf(fused ? uses_.of(reader)[0].reader : reader);
  }

  // By group: the groups that have been through a step before it is at that step.
  void FindNeeded() {
    needed_.resize(grouping_.groups.size());
    for (size_t g = 0; g < grouping_.groups.size(); ++g) {
      for (const StageNodes& stage : grouping_.groups[g].stages) {
        for (const NodeId id : stage.nodes) AddNeeded(id, &needed_[g]);
      }
      needed_[g].erase(static_cast<int32_t>(g));
    }
  }

  void AddNeeded(NodeId id, Groups* needed) const {
    for (const Edge& edge : graph_.node(id).inputs) {
      if (grouping_.roles[at(edge.source)] == Role::kFusedProduct) {
        AddNeeded(edge.source, needed);
        continue;
      }
      const ResolvedEdge read = uses_.Resolve(graph_.node(id), edge);
      const int32_t group = GroupOf(read.value);
      if (read.delay > 0 || group < 0) continue;
      needed->insert(group);
      needed->insert(needed_[at(group)].begin(), needed_[at(group)].end());
    }
  }

  // Holds all steps of values that are computed.
  bool IsWhole(int32_t id) const {
    const Buffer& b = buffer(id);
    return b.source == BufferSource::kComputed && b.domain == Domain::kStep && !b.local &&
           b.ring == 0;
  }

  bool IsSameKind(int32_t a, int32_t b) const {
    return IsWhole(b) && buffer(a).width == buffer(b).width && buffer(a).dtype == buffer(b).dtype;
  }

  void FindValues() {
    values_of_.resize(storage_.buffers.size());
    for (NodeId value = 0; value < graph_.size(); ++value) {
      const int32_t place = storage_.view_of[at(value)].buffer;
      if (place >= 0) values_of_[at(place)].push_back(value);
    }
    for (const auto& [value, mirrors] : storage_.mirrors) {
      for (const View& mirror : mirrors) values_of_[at(mirror.buffer)].push_back(value);
    }
  }

  Groups WritersOf(int32_t id) const {
    Groups writers;
    for (const NodeId value : values_of_[at(id)]) writers.insert(GroupOf(value));
    return writers;
  }

  // Whether all who touch the buffer have been through a step before any of the writers is there.
  bool DiesBefore(int32_t id, const Groups& writers) const {
    const std::vector<NodeId>& values = values_of_[at(id)];
    const auto before = [&](int32_t group) {
      return std::all_of(writers.begin(), writers.end(), [&](int32_t writer) {
        return writer >= 0 && needed_[at(writer)].contains(group);
      });
    };
    return !values.empty() && std::all_of(values.begin(), values.end(), [&](NodeId value) {
      const std::vector<Use>& uses = uses_.of(value);
      return !uses_.IsOutput(value) && before(GroupOf(value)) &&
             std::all_of(uses.begin(), uses.end(), [&](const Use& use) {
               return !use.delayed && !use.as_init && before(ReaderGroup(use.reader));
             });
    });
  }

  void Move(int32_t from, int32_t to) {
    for (View& place : storage_.view_of) {
      if (place.buffer == from) place.buffer = to;
    }
    for (auto& [id, mirrors] : storage_.mirrors) {
      for (View& mirror : mirrors) {
        if (mirror.buffer == from) mirror.buffer = to;
      }
    }
    std::vector<NodeId>& moved = values_of_[at(from)];
    values_of_[at(to)].insert(values_of_[at(to)].end(), moved.begin(), moved.end());
    moved.clear();
  }

  const Graph& graph_;
  const Uses& uses_;
  const Grouping& grouping_;
  Storage& storage_;
  std::vector<Groups> needed_;
  std::vector<std::vector<NodeId>> values_of_;  // by buffer: what lies in it, mirrors included
};

}  // namespace

void ReuseDeadBuffers(const Graph& graph, const Uses& uses, const Grouping& grouping,
                      Storage* storage) {
  BufferReuse(graph, uses, grouping, storage).Run();
}

}  // namespace turbolstm
