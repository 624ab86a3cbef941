#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/executable.h"

namespace turbolstm {

struct RaceOptions {
  double seconds = 1;         // in all; every plan runs at least twice, whatever that takes
  double drop_beyond = 1e30;  // a plan that takes so many times longer than the best is dropped
};

// What a plan was measured to take; runs of the plans alternate, so that what disturbs the machine
// disturbs all.
struct Lap {
  double median = 0;  // seconds of a training step whose parameters have changed
  double least = 0;
  int runs = 0;
};

// Times plans of the shape and inputs that the executable has. It keeps the last one.
std::vector<Lap> RacePlans(std::span<const Plan> plans, const RaceOptions& options,
                           Executable* executable);

}  // namespace turbolstm
