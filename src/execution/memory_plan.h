#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "execution/device_schedule.h"
#include "plan/lowered.h"

namespace turbolstm {

// Where the buffers of a lowered graph lie on a device that runs groups turn by turn (turns.h), or
// as a schedule says, and has `batch` rows for every step. Buffers that are never needed at once
// share places: all that touches the one is done before anything that touches the other begins.
// What the caller binds is needed from beginning to end, what he reads from where it is computed.
// Parameters have places of their own, the same for every shape. Needs no device.
//
// Where the caller lends the memory, he has some buffers himself, and the others lie in three
// regions: what the early groups hand to the late ones (late_groups.h), and what either need for
// themselves.
class MemoryPlan {
 public:
  enum class Region : uint8_t { kShared, kEarly, kLate };

  // The graph must outlive the plan. lent: by buffer, whether it is the caller's and has no place;
  // empty: none is, and all are in Region::kShared.
  explicit MemoryPlan(const LoweredGraph& graph, std::vector<bool> lent = {});

  // Gives everything but parameters a place.
  void SetShape(int64_t steps, int64_t batch);
  // Likewise for tasks on streams. state_bytes: by group, what a persistent loop hands over from
  // step to step.
  void SetShape(int64_t steps, int64_t batch, const DeviceSchedule& schedule,
                std::span<const int64_t> state_bytes);

  bool IsParameter(int32_t buffer) const;
  // Bytes from the beginning of the memory for parameters, or of that for all else.
  int64_t offset(int32_t buffer) const { return blocks_[static_cast<size_t>(buffer)].offset; }
  int64_t parameter_bytes() const { return parameter_bytes_; }
  int64_t shared_bytes() const { return region_bytes(Region::kShared); }
  // All of it.
  int64_t bytes() const { return parameter_bytes_ + shared_bytes(); }

  // Where the caller lends the memory: offsets count from the beginning of the region.
  bool IsLent(int32_t buffer) const { return lends() && lent_[static_cast<size_t>(buffer)]; }
  Region region(int32_t buffer) const { return blocks_[static_cast<size_t>(buffer)].region; }
  int64_t region_bytes(Region region) const { return region_bytes_[static_cast<size_t>(region)]; }

  // What the shape is and what takes most, for an error.
  std::string Describe() const;
  // What products may work in beside that, at most.
  int64_t ProductWorkspaceBytes() const;

  // Static values that products of a 16-bit graph read in 16 bits: copies that lie with all else,
  // from the first group that reads them to the last.
  const std::vector<View>& narrow_statics() const { return narrow_statics_; }
  // Where groups run turn by turn: a small copy of a parameter, which can be made before all else
  // and is kept from then on.
  bool IsNarrowAtOnce(size_t i) const;
  int64_t narrow_static_offset(size_t i) const { return blocks_[graph_.buffers.size() + i].offset; }
  Region narrow_static_region(size_t i) const { return blocks_[graph_.buffers.size() + i].region; }
  // Of a schedule: where a group's state lies.
  int64_t state_offset(size_t group) const {
    return blocks_[graph_.buffers.size() + narrow_statics_.size() + group].offset;
  }

 private:
  static constexpr int32_t kEnd = std::numeric_limits<int32_t>::max();

  // Buffers, then narrow Static values, then states of groups. Turns are tasks of one stream.
  struct Block {
    int64_t bytes = 0;
    int64_t offset = 0;
    Region region = Region::kShared;
    bool used = false;
    std::vector<int32_t> last;  // by stream: the last of its tasks that touch this; -1: none
    std::vector<int32_t> done;  // by stream: tasks that are done before the first of all of them

    // Whether all that touches this is done before anything that touches the other begins.
    bool IsBefore(const Block& other) const;
  };

  const Buffer& buffer(size_t i) const { return graph_.buffers[i]; }
  void FindTurns();
  void FindTasks(const DeviceSchedule& schedule);
  void BeginLives(size_t streams);
  void KeepWhatIsBound();
  bool lends() const { return !lent_.empty(); }
  void FindRegions(int32_t first_late_turn);
  void TouchStage(const Stage& stage, int32_t turn);
  void Touch(const View& view, int32_t turn);
  static void Touch(Block* block, int32_t turn);
  int64_t BytesOf(const Buffer& what) const;
  void PlaceParameters();
  void Place(int64_t steps, int64_t batch, std::span<const int64_t> state_bytes);
  void PlaceRegion(Region region);

  int64_t RowsOf(Domain domain) const;
  int64_t ProductBytes(const Group& group, const Stage& stage) const;

  const LoweredGraph& graph_;
  DType narrow_;
  std::vector<bool> lent_;
  int64_t steps_ = 0;
  int64_t batch_ = 0;
  std::vector<Block> blocks_;
  std::vector<View> narrow_statics_;
  int64_t parameter_bytes_ = 0;
  int64_t region_bytes_[3] = {0, 0, 0};
};

}  // namespace turbolstm
