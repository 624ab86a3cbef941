#include "plan/group_order.h"

#include <algorithm>
#include <numeric>

#include "base/index.h"

namespace turbolstm {
namespace {

class Orderer {
 public:
  explicit Orderer(const GroupNeeds& groups)
      : groups_(groups),
        needs_(groups.needs),
        readers_(groups.needs.size()),
        missing_(groups.needs.size()),
        done_(groups.needs.size(), false) {
    AddRecomputedTogether();
    for (size_t g = 0; g < needs_.size(); ++g) {
      missing_[g] = needs_[g].size();
      for (const int32_t need : needs_[g]) readers_[at(need)].push_back(static_cast<int32_t>(g));
      std::stable_partition(needs_[g].begin(), needs_[g].end(),
                            [&](int32_t need) { return !IsRecomputed(need); });
    }
  }

  std::vector<int32_t> Run() {
    for (const int32_t output : groups_.outputs) Visit(output);
    for (size_t g = 0; g < needs_.size(); ++g) Visit(static_cast<int32_t>(g));
    return std::move(order_);
  }

 private:
  bool IsRecomputed(int32_t group) const {
    return groups_.kinds[at(group)] == GroupNeeds::Kind::kRecomputed;
  }

  // A loop that reads one of several connected groups needs all of them.
  void AddRecomputedTogether() {
    std::vector<int32_t> leader(needs_.size());
    std::iota(leader.begin(), leader.end(), 0);
    const auto find = [&](int32_t g) {
      while (leader[at(g)] != g) g = leader[at(g)] = leader[at(leader[at(g)])];
      return g;
    };
    for (size_t g = 0; g < needs_.size(); ++g) {
      if (!IsRecomputed(static_cast<int32_t>(g))) continue;
      for (const int32_t need : needs_[g]) {
        if (IsRecomputed(need)) leader[at(find(static_cast<int32_t>(g)))] = find(need);
      }
    }
    std::vector<std::vector<int32_t>> together(needs_.size());
    for (size_t g = 0; g < needs_.size(); ++g) {
      const auto group = static_cast<int32_t>(g);
      if (IsRecomputed(group)) together[at(find(group))].push_back(group);
    }
    for (size_t g = 0; g < needs_.size(); ++g) {
      if (groups_.kinds[g] != GroupNeeds::Kind::kLoop) continue;
      std::vector<int32_t>& needs = needs_[g];
      for (const int32_t need : groups_.needs[g]) {
        if (!IsRecomputed(need)) continue;
        const std::vector<int32_t>& more = together[at(find(need))];
        needs.insert(needs.end(), more.begin(), more.end());
      }
      std::sort(needs.begin(), needs.end());
      needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
    }
  }

  // Depth first, without recursion.
  void Visit(int32_t root) {
    std::vector<int32_t> path = {root};
    while (!path.empty()) {
      const int32_t group = path.back();
      const std::vector<int32_t>& needs = needs_[at(group)];
      const auto next =
          std::find_if(needs.begin(), needs.end(), [&](int32_t need) { return !done_[at(need)]; });
      if (!done_[at(group)] && next != needs.end()) {
        path.push_back(*next);
        continue;
      }
      path.pop_back();
      if (!done_[at(group)]) Append(group);
    }
  }

  void Append(int32_t group) {
    done_[at(group)] = true;
    order_.push_back(group);
    for (const int32_t reader : readers_[at(group)]) {
      const bool complete = --missing_[at(reader)] == 0;
      if (complete && groups_.kinds[at(reader)] == GroupNeeds::Kind::kSum) Append(reader);
    }
  }

  const GroupNeeds& groups_;
  std::vector<std::vector<int32_t>> needs_;
  std::vector<std::vector<int32_t>> readers_;
  std::vector<size_t> missing_;  // of what each group needs
  std::vector<bool> done_;
  std::vector<int32_t> order_;
};

}  // namespace

std::vector<int32_t> OrderWithShortLives(const GroupNeeds& groups) {
  return Orderer(groups).Run();
}

}  // namespace turbolstm
