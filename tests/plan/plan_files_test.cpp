// Runs the statements of tests/plan/*.plan, which say how work is cut and ordered:
//
//   network lstm layers 2 hidden 8      a training step of such layers, or
//   graph ... end                       any graph in its text form
//   shape 6 4                           6 steps of 4 sequences
//   plan streams 2 time_block 3         makes a plan; schedule NAME is one of the known ones
//   tasks 12                            it has so many tasks
//   streams 2                           on so many streams
//   "loop h 0:3" before "loop g 0:3"    one has to be done before the other begins
//   "loop h 3:6" beside "loop g 0:3"    nothing orders them
//   same plan as streams 2 ...          these cuts make the same plan
//   other plan than streams 2 ...
//   moving "A" before "B" fails: WORDS  an edited plan is refused with these words
//   plan ... fails: WORDS
//
// A task is called by its group and its steps, with "rows 0:2" where it does not have all; a sum
// over rows with its columns; a packing "pack w 1/2" by its part.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/error.h"
#include "graph/text.h"
#include "plan/auto_schedule.h"
#include "plan/comparison.h"
#include "plan/dependencies.h"
#include "plan/known_schedules.h"
#include "plan/recurrent_graphs.h"
#include "plan/verify.h"

namespace turbolstm {
namespace {

namespace fs = std::filesystem;

class Statements {
 public:
  explicit Statements(const fs::path& file) : in_(file) {}

  void Run() {
    for (std::string line; std::getline(in_, line);) {
      ++number_;
      line = line.substr(0, line.find('#'));
      if (line.find_first_not_of(' ') == std::string::npos) continue;
      SCOPED_TRACE("line " + std::to_string(number_) + ": " + line);
      try {
        Do(line);
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    }
    EXPECT_GT(claims_, 0) << "the file claims nothing";
  }

 private:
  void Do(const std::string& line) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "network") return Network(words);
    if (first == "graph") return GraphText();
    if (first == "shape") {
      words >> steps_ >> batch_;
      return executable_->SetShape(steps_, batch_);
    }
    if (const size_t fails = line.find(" fails: "); fails != std::string::npos) {
      return Fails(line.substr(0, fails), line.substr(fails + 8));
    }
    if (first == "plan") {
      plan_ = PlanOf(line.substr(5));
      return;
    }
    ++claims_;
    if (first == "tasks") return Count(words, plan_->partition.tasks.size());
    if (first == "streams") return Count(words, plan_->schedule.streams.size());
    if (line.starts_with("same plan as ")) {
      EXPECT_EQ(PrintPlan(PlanOf(line.substr(13))), PrintPlan(*plan_));
    } else if (line.starts_with("other plan than ")) {
      EXPECT_NE(PrintPlan(PlanOf(line.substr(16))), PrintPlan(*plan_));
    } else {
      Order(line);
    }
  }

  void Network(std::istringstream& words) {
    RecurrentOptions options;
    words >> options.cell;
    for (std::string word; words >> word;) {
      if (word == "layers") words >> options.layers;
      if (word == "hidden") words >> options.size.hidden;
      if (word == "bidirectional") options.bidirectional = true;
    }
    options.size.input = options.size.hidden;
    Take(WithGradients(RecurrentGraph(options)));
  }

  void GraphText() {
    std::string text;
    for (std::string line; std::getline(in_, line) && line != "end";) {
      ++number_;
      text += line + "\n";
    }
    ++number_;
    Take(ParseGraph(text));
  }

  void Take(const Graph& graph) {
    executable_.emplace(graph, ExecutableOptions{.streams = 4, .verify = true});
  }

  Plan PlanOf(const std::string& text) const {
    PartitionOptions cuts{.streams = 2};
    std::optional<ScheduleKind> kind;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      if (word == "schedule") {
        words >> word;
        kind = ScheduleNamed(word);
      } else if (word == "streams") {
        words >> cuts.streams;
      } else if (word == "time_block") {
        words >> cuts.time_block;
      } else if (word == "row_tile") {
        words >> cuts.row_tile;
      } else if (word == "sum_block") {
        words >> cuts.sum_block;
      } else if (word == "step_parts") {
        words >> cuts.step_parts;
      } else {
        Fail("'{}' is no setting of a plan", word);
      }
    }
    const RowLayout layout(steps_, batch_);
    if (kind == ScheduleKind::kAuto) {
      const std::vector<Candidate> ranked =
          RankedCandidates(executable_->lowered(), BucketOf(steps_), batch_, cuts);
      cuts = CutsOf(ranked.front().proportions, layout, cuts);
    } else if (kind) {
      cuts = CutsOf(*kind, layout, cuts);
    }
    return executable_->PlanWith(cuts);
  }

  std::string Call(const Task& task, const Work& work) const {
    if (work.weight >= 0) {
      return fmt::format("{} {}/{}", task.name, work.part.index + 1, work.part.count);
    }
    std::string text = fmt::format("{} {}:{}", task.name, task.time_begin, task.time_end);
    const Group& group = executable_->lowered().groups[static_cast<size_t>(work.group)];
    if (KindOfWork(group) == WorkKind::kReduction) {
      return text + fmt::format(" columns {}:{}", task.row_begin, task.row_end);
    }
    if (task.row_begin > 0 || task.row_end < batch_) {
      text += fmt::format(" rows {}:{}", task.row_begin, task.row_end);
    }
    return text;
  }

  int32_t TaskCalled(const std::string& name) const {
    std::string known;
    for (size_t i = 0; i < plan_->partition.tasks.size(); ++i) {
      const std::string call = Call(plan_->partition.tasks[i], plan_->partition.work[i]);
      if (call == name) return static_cast<int32_t>(i);
      known += "\n  " + call;
    }
    Fail("no task is called '{}'; there are{}", name, known);
  }

  // The two quoted names of a line.
  static std::pair<std::string, std::string> Names(const std::string& line) {
    std::vector<size_t> quotes;
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '"') quotes.push_back(i);
    }
    TL_CHECK(quotes.size() == 4, "wants two names in quotes");
    return {line.substr(quotes[0] + 1, quotes[1] - quotes[0] - 1),
            line.substr(quotes[2] + 1, quotes[3] - quotes[2] - 1)};
  }

  // The tasks through which dependencies alone make `first` come before `second`; else empty.
  std::string ChainBetween(int32_t first, int32_t second) const {
    const Dependencies dependencies = DeriveDependencies(plan_->partition.tasks);
    std::vector<int32_t> because(dependencies.size(), -1);
    because[static_cast<size_t>(first)] = first;
    for (size_t t = 0; t < dependencies.size(); ++t) {
      for (const int32_t before : dependencies[t]) {
        if (because[static_cast<size_t>(before)] >= 0) because[t] = before;
      }
    }
    std::string chain;
    if (first == second || because[static_cast<size_t>(second)] < 0) return chain;
    for (int32_t t = second; t != first; t = because[static_cast<size_t>(t)]) {
      const auto i = static_cast<size_t>(t);
      chain = " -> " + Call(plan_->partition.tasks[i], plan_->partition.work[i]) + chain;
    }
    return chain;
  }

  void Order(const std::string& line) {
    const auto [a, b] = Names(line);
    const int32_t first = TaskCalled(a), second = TaskCalled(b);
    if (line.find("\" before \"") != std::string::npos) {
      EXPECT_NE(ChainBetween(first, second), "") << "nothing makes it so";
    } else if (line.find("\" beside \"") != std::string::npos) {
      EXPECT_EQ(ChainBetween(first, second), "");
      EXPECT_EQ(ChainBetween(second, first), "");
    } else {
      ADD_FAILURE() << "no statement";
    }
  }

  void Fails(const std::string& statement, const std::string& words) {
    ++claims_;
    try {
      if (statement.starts_with("moving ")) {
        Move(statement);
      } else {
        PlanOf(statement.substr(5));
      }
      ADD_FAILURE() << "it does not fail";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }

  // As somebody would who edits the text: the line goes in front of the other one's.
  void Move(const std::string& statement) const {
    const auto [a, b] = Names(statement);
    const int32_t moved = TaskCalled(a), there = TaskCalled(b);
    std::vector<std::vector<int32_t>> streams = plan_->schedule.streams;
    for (std::vector<int32_t>& stream : streams) std::erase(stream, moved);
    for (std::vector<int32_t>& stream : streams) {
      const auto place = std::ranges::find(stream, there);
      if (place == stream.end()) continue;
      stream.insert(place, moved);
      break;
    }
    const std::vector<Task>& tasks = plan_->partition.tasks;
    CompleteSchedule(tasks, DeriveDependencies(tasks), streams);
  }

  static void Count(std::istringstream& words, size_t got) {
    size_t wanted = 0;
    words >> wanted;
    EXPECT_EQ(got, wanted);
  }

  std::ifstream in_;
  int number_ = 0;
  int claims_ = 0;
  int64_t steps_ = 0, batch_ = 0;
  std::optional<Executable> executable_;
  std::optional<Plan> plan_;
};

class PlanFiles : public ::testing::TestWithParam<std::string> {};

TEST_P(PlanFiles, AreAsTheySay) {
  Statements(fs::path(TL_PLAN_FILES) / (GetParam() + ".plan")).Run();
}

std::vector<std::string> Files() {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(TL_PLAN_FILES)) {
    if (entry.path().extension() == ".plan") names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Files, PlanFiles, ::testing::ValuesIn(Files()),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace turbolstm
