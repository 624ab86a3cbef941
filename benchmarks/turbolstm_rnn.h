#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "harness/report.h"
#include "plan/execution.h"

namespace turbolstm::bench {

// The network of a case: "x" to "y", and for training "dy" to the gradients of the input and of
// every weight.
Graph BuildGraph(const Case& c, bool training);

// Sets the shape of a case and binds random numbers to everything.
class BoundValues {
 public:
  // The execution must not outlive the values.
  BoundValues(const Case& c, Execution* execution);

 private:
  std::map<std::string, std::vector<float>> values_;
};

// A network that has been run on a GPU for a while, or an Error why not.
void MeasureOnDevice(const Run& run, const Options& options, Report* report);
// What a report says of the GPU; Error when there is none.
void DescribeGpu(Report* report);

}  // namespace turbolstm::bench
