#include "plan/buffer_places.h"

#include <algorithm>
#include <numeric>

#include "base/index.h"

namespace turbolstm {
namespace {

bool HoldsAllSteps(const Buffer& buffer) {
  return buffer.domain == Domain::kStep && buffer.source == BufferSource::kComputed &&
         !buffer.local && buffer.ring == 0;
}

}  // namespace

BufferPlaces::BufferPlaces(const LoweredGraph& graph, std::span<const GroupTurn> turns,
                           int64_t steps, int64_t time_block)
    : time_block_(time_block) {
  const std::vector<Life> lives = LivesOf(graph, turns);
  const bool is_long = steps > kBlocks * time_block;
  for (size_t i = 0; i < lives.size(); ++i) {
    ring_.push_back(is_long && lives[i].in_blocks && lives[i].first >= 0 &&
                    HoldsAllSteps(graph.buffers[i]));
  }
  Share(graph, lives);
}

std::vector<BufferPlaces::Life> BufferPlaces::LivesOf(const LoweredGraph& graph,
                                                      std::span<const GroupTurn> turns) {
  std::vector<Life> lives(graph.buffers.size());
  const auto touch = [&](const View& view, const GroupTurn& turn, bool own_step) {
    if (view.buffer < 0) return;
    Life& life = lives[at(view.buffer)];
    if (life.first < 0) life.first = turn.turn;
    life.last = turn.turn;
    life.in_blocks &= own_step && turn.blockwise && life.first == life.last;
  };
  for (const GroupTurn& turn : turns) {
    for (const Stage& stage : graph.groups[at(turn.group)].stages) {
      for (const Operand& operand : stage.inputs) {
        touch(operand.view, turn, operand.delay == 0);
        touch(operand.init, turn, false);
      }
      for (const View& view : stage.outputs) touch(view, turn, true);
    }
  }
  // Outputs stay.
  for (const NamedView& output : graph.outputs) lives[at(output.view.buffer)] = {};
  return lives;
}

// In the order in which lives begin, each in the first place of its kind that is free again.
void BufferPlaces::Share(const LoweredGraph& graph, const std::vector<Life>& lives) {
  place_of_.resize(lives.size());
  std::iota(place_of_.begin(), place_of_.end(), 0);
  std::vector<int32_t> order;
  for (size_t i = 0; i < lives.size(); ++i) {
    if (lives[i].first >= 0 && HoldsAllSteps(graph.buffers[i])) {
      order.push_back(static_cast<int32_t>(i));
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return lives[at(a)].first < lives[at(b)].first; });
  struct Place {
    int32_t buffer;
    int32_t last;  // turn
  };
  std::vector<Place> places;
  for (const int32_t id : order) {
    const Buffer& own = graph.buffers[at(id)];
    const auto free = std::find_if(places.begin(), places.end(), [&](const Place& place) {
      const Buffer& there = graph.buffers[at(place.buffer)];
      return place.last < lives[at(id)].first && there.width == own.width &&
             there.dtype == own.dtype && ring_[at(place.buffer)] == ring_[at(id)];
    });
    if (free == places.end()) {
      places.push_back({id, lives[at(id)].last});
      continue;
    }
    place_of_[at(id)] = free->buffer;
    free->last = lives[at(id)].last;
  }
}

void BufferPlaces::Apply(std::span<Task> tasks) const {
  const auto count = static_cast<int32_t>(place_of_.size());
  const auto apply = [&](Access* access) {
    if (access->buffer >= count || access->Empty()) return;  // packed weights are no buffers
    if (IsRing(access->buffer)) {
      access->time_begin = BlockOf(access->time_begin);
      access->time_end = access->time_begin + 1;
    }
    access->buffer = place_of(access->buffer);
  };
  for (Task& task : tasks) {
    for (Access& access : task.reads) apply(&access);
    for (Access& access : task.writes) apply(&access);
  }
}

}  // namespace turbolstm
