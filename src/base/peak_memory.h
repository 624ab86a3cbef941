#pragma once

namespace turbolstm {

// Peak of this process' resident memory since construction over what was resident then, in MiB.
// Memory that was freed before is given back first, so that it does not hide what comes. Linux with
// glibc only; answers 0 where the kernel does not let a process reset its peak.
class PeakMemory {
 public:
  PeakMemory();
  double Mebibytes() const;

 private:
  double start_ = 0;
  bool works_ = false;
};

}  // namespace turbolstm
