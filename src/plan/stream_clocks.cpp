#include "plan/stream_clocks.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace turbolstm {
namespace {

void CheckLists(std::span<const Task> tasks, std::span<const std::vector<int32_t>> before) {
  TL_CHECK(before.size() == tasks.size(), "[schedule] got lists of {} tasks, the program has {}",
           before.size(), tasks.size());
  const auto count = static_cast<int32_t>(tasks.size());
  for (int32_t task = 0; task < count; ++task) {
    for (const int32_t other : before[task]) {
      TL_CHECK(other >= 0 && other < count && other != task,
               "[schedule] task {} '{}' waits for task {}, wants another one of 0 .. {}", task,
               tasks[task].name, other, count - 1);
    }
  }
}

}  // namespace

StreamClocks::StreamClocks(std::span<const Task> tasks, Lists streams, Lists before)
    : places_(tasks.size()), clocks_(tasks.size() * streams.size()), done_(streams.size(), 0) {
  CheckLists(tasks, before);
  FindPlaces(tasks, streams);
  sequence_.reserve(tasks.size());
  Advance(streams, before);
  if (sequence_.size() < tasks.size()) FailForDeadlock(tasks, streams, before);
}

void StreamClocks::FindPlaces(std::span<const Task> tasks, Lists streams) {
  const auto count = static_cast<int32_t>(tasks.size());
  for (size_t s = 0; s < streams.size(); ++s) {
    for (size_t p = 0; p < streams[s].size(); ++p) {
      const int32_t task = streams[s][p];
      TL_CHECK(task >= 0 && task < count, "[schedule] stream {} has task {}, wants 0 .. {}", s,
               task, count - 1);
      TL_CHECK(places_[task].stream < 0,
               "[schedule] task {} '{}' stands in stream {} and again in stream {}", task,
               tasks[task].name, places_[task].stream, s);
      places_[task] = {static_cast<int32_t>(s), static_cast<int32_t>(p)};
    }
  }
  for (int32_t task = 0; task < count; ++task) {
    TL_CHECK(places_[task].stream >= 0, "[schedule] task {} '{}' stands in no stream", task,
             tasks[task].name);
  }
}

// Runs every stream as far as it goes, until none goes any further.
void StreamClocks::Advance(Lists streams, Lists before) {
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t s = 0; s < streams.size(); ++s) {
      while (done_[s] < static_cast<int32_t>(streams[s].size()) &&
             CanRun(streams[s][done_[s]], before)) {
        Begin(streams[s][done_[s]], streams, before);
        moved = true;
      }
    }
  }
}

bool StreamClocks::CanRun(int32_t task, Lists before) const {
  return std::all_of(before[task].begin(), before[task].end(), [&](int32_t other) {
    return places_[other].position < done_[places_[other].stream];
  });
}

void StreamClocks::Begin(int32_t task, Lists streams, Lists before) {
  int32_t* clock = &clocks_[static_cast<size_t>(task) * done_.size()];
  const auto join = [&](int32_t earlier) {
    const std::span<const int32_t> other = Clock(earlier);
    for (size_t s = 0; s < other.size(); ++s) clock[s] = std::max(clock[s], other[s]);
    const Place place = places_[earlier];
    clock[place.stream] = std::max(clock[place.stream], place.position + 1);
  };
  const Place place = places_[task];
  if (place.position > 0) join(streams[place.stream][place.position - 1]);
  for (const int32_t other : before[task]) join(other);
  ++done_[place.stream];
  sequence_.push_back(task);
}

// Follows from a stuck stream what it waits for, until a stream comes up again.
void StreamClocks::FailForDeadlock(std::span<const Task> tasks, Lists streams, Lists before) const {
  const auto stuck = [&](size_t s) { return done_[s] < static_cast<int32_t>(streams[s].size()); };
  int32_t stream = 0;
  while (!stuck(static_cast<size_t>(stream))) ++stream;
  std::vector<std::string> links;
  std::vector<int32_t> link_of_stream(streams.size(), -1);
  while (link_of_stream[stream] < 0) {
    link_of_stream[stream] = static_cast<int32_t>(links.size());
    const int32_t head = streams[stream][done_[stream]];
    const int32_t awaited = *std::find_if(before[head].begin(), before[head].end(), [&](int32_t t) {
      return places_[t].position >= done_[places_[t].stream];
    });
    const int32_t next = places_[awaited].stream;
    const int32_t next_head = streams[next][done_[next]];
    links.push_back(fmt::format("task {} '{}' on stream {} comes after task {} '{}'", head,
                                tasks[head].name, stream, awaited, tasks[awaited].name));
    if (next_head != awaited) {
      links.back() += fmt::format(", which stands behind task {} '{}' on stream {}", next_head,
                                  tasks[next_head].name, next);
    }
    stream = next;
  }
  links.erase(links.begin(), links.begin() + link_of_stream[stream]);
  Fail("[schedule] the streams would wait for ever: {}", fmt::join(links, "; "));
}

}  // namespace turbolstm
