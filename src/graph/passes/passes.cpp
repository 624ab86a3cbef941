#include "graph/passes/passes.h"

#include <algorithm>

#include "base/error.h"
#include "graph/analysis.h"

namespace turbolstm {

const std::vector<Pass>& StandardPasses() {
  static const std::vector<Pass> passes = {
      {"simplify", Simplify},
      {"merge_pads", MergePads},
      {"hoist_invariant_sums", HoistInvariantSums},
      {"pack_products", PackProducts},
      {"simplify", Simplify},
  };
  return passes;
}

void RunPasses(Graph* graph, const std::vector<Pass>& passes,
               const std::vector<std::string_view>& disabled) {
  for (const Pass& pass : passes) {
    if (std::find(disabled.begin(), disabled.end(), pass.name) != disabled.end()) continue;
    pass.run(graph);
    try {
      Analyse(*graph);
    } catch (const Error& error) {
      Fail("[pass {}] broke the graph: {}", pass.name, error.what());
    }
  }
}

}  // namespace turbolstm
