// How the loops of every cell run on a GPU, with every option: a table, so that a loss shows.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "execution/device_lowering.h"
#include "execution/persistent_match_cuda.h"
#include "execution/phased_match_cuda.h"
#include "execution/typed_programs_cuda.h"
#include "plan/recurrent_graphs.h"

namespace turbolstm {
namespace {

// Of every loop of a training step, in the order in which they run:
//   P  one persistent kernel
//   p  one phased kernel
//   T  one kernel that walks through time, without products
//   s  a kernel for each stage of each step
std::string WaysToRun(const RecurrentOptions& options, Precision precision) {
  const LoweredGraph lowered =
      LowerForDevice(WithGradients(RecurrentGraph(options)), precision, BoundaryType::kFloat32);
  std::string ways;
  for (const Group& group : lowered.groups) {
    if (!group.is_loop()) continue;
    ways += cuda::MatchPersistentLoop(lowered, group) ? 'P'
            : cuda::RunsInOneKernel(lowered, group)   ? 'T'
            : cuda::MatchPhasedLoop(lowered, group)   ? 'p'
                                                      : 's';
  }
  return ways;
}

struct Row {
  const char* cell;
  const char* ways;
};
constexpr Row kTable[] = {
    {"rnn_tanh", "PP"},      {"rnn_relu", "PP"},
    {"lstm", "PP"},          {"gru", "PP"},
    {"gru_original", "pp"},  {"lstm_projection", "pp"},
    {"peephole_lstm", "PP"}, {"layer_norm_lstm", "pp"},
    {"mgu", "pp"},           {"indrnn", "TT"},
    {"trnn", "TT"},          {"tau_gru", "ss"},
    {"scrn", "TppT"},        {"slstm", "ss"},
};

struct Option {
  const char* name;
  double zoneout = 0;
  double recurrent_dropout = 0;
  InitialState initial = InitialState::kZero;
};
constexpr Option kOptions[] = {
    {"plain"},
    {"zoneout", 0.1},
    {"recurrent dropout", 0, 0.1},
    {"both", 0.1, 0.1},
    {"given states", 0, 0, InitialState::kGiven},
    {"learned states", 0, 0, InitialState::kLearned},
    {"recurrent dropout of given states", 0, 0.1, InitialState::kGiven},
    {"recurrent dropout of learned states", 0, 0.1, InitialState::kLearned},
};

TEST(PersistentTable, HasEveryCell) {
  std::vector<std::string> cells;
  for (const Row& row : kTable) cells.emplace_back(row.cell);
  EXPECT_EQ(cells, CellNames());
}

TEST(PersistentTable, SaysHowLoopsRun) {
  for (const Row& row : kTable) {
    for (const Option& option : kOptions) {
      for (const int64_t hidden : {32, 34}) {
        RecurrentOptions options = SmallOptions(row.cell);
        options.size.hidden = hidden;
        if (options.size.projection > 0) options.size.projection = hidden / 2;
        options.zoneout = option.zoneout;
        options.recurrent_dropout = option.recurrent_dropout;
        options.initial = option.initial;
        for (const Precision precision :
             {Precision::kTf32, Precision::kBFloat16, Precision::kFloat16, Precision::kBf16x6}) {
          EXPECT_EQ(WaysToRun(options, precision), row.ways)
              << row.cell << ", " << option.name << ", " << hidden << ", " << Name(precision);
        }
      }
    }
  }
}

}  // namespace
}  // namespace turbolstm
