#pragma once

#include <cstdint>
#include <vector>

#include "plan/lowered.h"

namespace turbolstm {

// Places for packed weights. A training step multiplies by a matrix and by its transpose, so it
// packs them anew whenever its parameters change, which is every step: there, a weight lies where
// one lay whose last product is done. Weights of other graphs keep their places, since they are
// packed once.
class WeightSlots {
 public:
  WeightSlots() = default;
  explicit WeightSlots(const LoweredGraph& graph);

  // Gives the weight a place: one that was released, of the right size if there is one, else a
  // place of its own. Once for each weight.
  void Take(int32_t weight);
  // All products by the weight stand before whatever is taken from now on.
  void Release(int32_t weight);

  int32_t slot_of(int32_t weight) const { return slot_of_[static_cast<size_t>(weight)]; }
  int32_t count() const { return static_cast<int32_t>(slots_.size()); }
  // Whether the place holds different weights in the course of a run.
  bool IsShared(int32_t weight) const { return slots_[Slot(weight)].holders > 1; }
  // Of a place and of all of them, packed for the current CPU.
  int64_t bytes(int32_t slot) const { return slots_[static_cast<size_t>(slot)].bytes; }
  int64_t bytes() const;

  bool operator==(const WeightSlots&) const = default;

 private:
  struct Place {
    int64_t bytes = 0;
    int32_t holders = 0;
    bool free = false;

    bool operator==(const Place&) const = default;
  };

  size_t Slot(int32_t weight) const { return static_cast<size_t>(slot_of(weight)); }
  // The released place to take for so many bytes, or -1.
  int32_t BestFit(int64_t bytes) const;

  std::vector<int64_t> bytes_;    // by weight
  std::vector<bool> repacked_;    // by weight: the graph multiplies by its transpose as well
  std::vector<int32_t> slot_of_;  // by weight; -1 before it is taken
  std::vector<Place> slots_;
};

}  // namespace turbolstm
