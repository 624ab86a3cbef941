#include "plan/dependencies.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace turbolstm {
namespace {

struct Interval {
  int64_t begin;
  int64_t end;
};

enum class Axis { kTime, kRows, kColumns };

Interval Along(const Access& access, Axis axis) {
  switch (axis) {
    case Axis::kTime:
      return {access.time_begin, access.time_end};
    case Axis::kRows:
      return {access.row_begin, access.row_end};
    default:
      return {access.column_begin, access.column_end};
  }
}

// How a buffer is cut into slabs, so that an access meets only those it can overlap: along the axis
// that its accesses cut finest, with slabs as long as the average access.
struct Slabs {
  Axis axis = Axis::kTime;
  int64_t begin = 0;
  int64_t length = 1;
  int32_t count = 0;
  size_t first = 0;  // of this buffer's slabs among all

  Interval Range(int32_t slab) const {
    return {begin + slab * length, begin + (slab + 1) * length};
  }
};

// Size of the accesses of one buffer along each axis.
struct Extents {
  struct OneAxis {
    int64_t begin = std::numeric_limits<int64_t>::max();
    int64_t end = std::numeric_limits<int64_t>::min();
    double sum = 0;  // of the accesses' lengths
  };
  OneAxis axes[3];
  int64_t accesses = 0;
  bool written = false;

  void Add(const Access& access, bool write) {
    for (int a = 0; a < 3; ++a) {
      const Interval interval = Along(access, static_cast<Axis>(a));
      axes[a].begin = std::min(axes[a].begin, interval.begin);
      axes[a].end = std::max(axes[a].end, interval.end);
      axes[a].sum += static_cast<double>(interval.end - interval.begin);
    }
    ++accesses;
    written |= write;
  }

  Slabs Cut() const {
    Slabs slabs;
    if (!written) return slabs;  // what is only read makes no dependencies
    double most = 0;
    for (int a = 0; a < 3; ++a) {
      const int64_t extent = axes[a].end - axes[a].begin;
      const double average = axes[a].sum / static_cast<double>(accesses);
      if (static_cast<double>(extent) / average <= most) continue;
      most = static_cast<double>(extent) / average;
      slabs.axis = static_cast<Axis>(a);
      slabs.begin = axes[a].begin;
      // Not more slabs than accesses, however sparse these are.
      slabs.length = std::max({static_cast<int64_t>(average), extent / accesses, int64_t{1}});
      slabs.count = static_cast<int32_t>((extent - 1) / slabs.length + 1);
    }
    return slabs;
  }
};

// The accesses so far that a later one may still have to come after, by slab.
class History {
 public:
  explicit History(std::span<const Task> tasks) {
    std::vector<Extents> extents;
    for (const Task& task : tasks) {
      for (const Access& access : task.reads) Extend(extents, task, access, false);
      for (const Access& access : task.writes) Extend(extents, task, access, true);
    }
    size_t count = 0;
    for (const Extents& extent : extents) {
      buffers_.push_back(extent.Cut());
      buffers_.back().first = count;
      count += static_cast<size_t>(buffers_.back().count);
    }
    writes_.assign(count, kNone);
    reads_.assign(count, kNone);
  }

  // Calls add(task) for what an access has to come after, some tasks more than once.
  template <typename Add>
  void Conflicts(const Access& access, bool write, Add add) {
    ForEachSlab(access, [&](const Slabs& slabs, int32_t slab) {
      Scan(writes_[slabs.first + slab], access, write, slabs, slab, add);
      if (write) Scan(reads_[slabs.first + slab], access, write, slabs, slab, add);
    });
  }

  void Record(const Access& access, bool write, int32_t task) {
    ForEachSlab(access, [&](const Slabs& slabs, int32_t slab) {
      int32_t& head = (write ? writes_ : reads_)[slabs.first + slab];
      const int32_t entry = NewEntry();
      entries_[entry] = {&access, task, head};
      head = entry;
    });
  }

 private:
  static constexpr int32_t kNone = -1;
  struct Entry {
    const Access* access;
    int32_t task;
    int32_t next;
  };

  static void Extend(std::vector<Extents>& extents, const Task& task, const Access& access,
                     bool write) {
    TL_CHECK(access.buffer >= 0, "[plan] task '{}' touches buffer {}, wants 0 or more", task.name,
             access.buffer);
    if (access.Empty()) return;
    const auto buffer = static_cast<size_t>(access.buffer);
    if (buffer >= extents.size()) extents.resize(buffer + 1);
    extents[buffer].Add(access, write);
  }

  template <typename Visit>
  void ForEachSlab(const Access& access, Visit visit) {
    if (access.Empty()) return;
    const Slabs& slabs = buffers_[access.buffer];
    if (slabs.count == 0) return;
    const Interval interval = Along(access, slabs.axis);
    const auto last = static_cast<int32_t>((interval.end - 1 - slabs.begin) / slabs.length);
    for (auto slab = static_cast<int32_t>((interval.begin - slabs.begin) / slabs.length);
         slab <= last; ++slab) {
      visit(slabs, slab);
    }
  }

  // Reports overlapping entries. Those that a write covers within the slab are forgotten: whatever
  // comes later and touches them there touches the write as well, and the write comes after them.
  template <typename Add>
  void Scan(int32_t& head, const Access& access, bool write, const Slabs& slabs, int32_t slab,
            Add add) {
    for (int32_t* link = &head; *link != kNone;) {
      Entry& entry = entries_[*link];
      if (!access.Overlaps(*entry.access)) {
        link = &entry.next;
        continue;
      }
      add(entry.task);
      if (write && Covers(access, *entry.access, slabs.axis, slabs.Range(slab))) {
        const int32_t forgotten = *link;
        *link = entry.next;
        entry.next = free_;
        free_ = forgotten;
      } else {
        link = &entry.next;
      }
    }
  }

  static bool Covers(const Access& outer, const Access& inner, Axis axis, Interval slab) {
    for (const Axis a : {Axis::kTime, Axis::kRows, Axis::kColumns}) {
      const Interval out = Along(outer, a);
      Interval in = Along(inner, a);
      if (a == axis) in = {std::max(in.begin, slab.begin), std::min(in.end, slab.end)};
      if (in.begin < out.begin || in.end > out.end) return false;
    }
    return true;
  }

  int32_t NewEntry() {
    if (free_ == kNone) {
      entries_.emplace_back();
      return static_cast<int32_t>(entries_.size()) - 1;
    }
    const int32_t entry = free_;
    free_ = entries_[entry].next;
    return entry;
  }

  std::vector<Slabs> buffers_;
  std::vector<int32_t> writes_, reads_;  // heads of lists of entries, by slab
  std::vector<Entry> entries_;
  int32_t free_ = kNone;
};

// Leaves out what another predecessor comes directly after.
class Reduction {
 public:
  explicit Reduction(size_t tasks) : implied_by_(tasks, -1) {}

  void Apply(const std::vector<std::vector<int32_t>>& dependencies, int32_t task,
             std::vector<int32_t>& predecessors) {
    // A longer list costs more to look through than its edges cost to wait for.
    constexpr size_t kLongList = 32;
    for (const int32_t predecessor : predecessors) {
      if (dependencies[predecessor].size() > kLongList) continue;
      for (const int32_t before : dependencies[predecessor]) implied_by_[before] = task;
    }
    std::erase_if(predecessors, [&](int32_t p) { return implied_by_[p] == task; });
  }

 private:
  std::vector<int32_t> implied_by_;  // the last task for which it was found implied
};

}  // namespace

std::vector<std::vector<int32_t>> DeriveDependencies(std::span<const Task> tasks) {
  History history(tasks);
  Reduction reduction(tasks.size());
  std::vector<std::vector<int32_t>> dependencies(tasks.size());
  std::vector<int32_t> found_by(tasks.size(), -1);
  std::vector<int32_t> found;
  for (int32_t j = 0; j < static_cast<int32_t>(tasks.size()); ++j) {
    found.clear();
    const auto add = [&](int32_t i) {
      if (found_by[i] == j) return;
      found_by[i] = j;
      found.push_back(i);
    };
    for (const Access& access : tasks[j].reads) history.Conflicts(access, false, add);
    for (const Access& access : tasks[j].writes) history.Conflicts(access, true, add);
    for (const Access& access : tasks[j].reads) history.Record(access, false, j);
    for (const Access& access : tasks[j].writes) history.Record(access, true, j);
    std::sort(found.begin(), found.end());
    reduction.Apply(dependencies, j, found);
    dependencies[j] = found;
  }
  return dependencies;
}

}  // namespace turbolstm
