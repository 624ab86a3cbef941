#pragma once

namespace turbolstm {

// When a task ran or is expected to run, in seconds since its run began.
struct TaskTime {
  double start = 0;
  double finish = 0;
};

}  // namespace turbolstm
