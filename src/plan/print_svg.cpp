#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "plan/timeline.h"

namespace turbolstm {
namespace {

// Sizes in pixels.
constexpr double kWidth = 1200;
constexpr double kLeft = 90, kRight = 20, kTop = 44;
constexpr double kLane = 46, kGap = 10;
constexpr double kLegendRow = 22;

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      default:
        escaped += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
  return escaped;
}

// Hues that people who see fewer colours can tell apart as well; blue, orange, green, purple, grey,
// red.
std::string Colour(TaskKind kind, size_t shade, size_t shades) {
  struct Hue {
    int degrees, saturation;
  };
  constexpr std::array<Hue, kTaskKinds.size()> kHues{
      {{212, 75}, {32, 90}, {152, 55}, {285, 40}, {0, 0}, {345, 65}}};
  const Hue hue = kHues[static_cast<size_t>(kind)];
  const double position =
      shades < 2 ? 0.3 : static_cast<double>(shade) / static_cast<double>(shades - 1);
  return fmt::format("hsl({},{}%,{:.0f}%)", hue.degrees, hue.saturation, 38 + 34 * position);
}

// A round number of milliseconds between marks, so that there are about ten.
double MarkEvery(double milliseconds) {
  if (milliseconds <= 0) return 1;
  const double power = std::pow(10, std::floor(std::log10(milliseconds / 10)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power * 12 >= milliseconds) return step * power;
  }
  return 10 * power;
}

class Picture {
 public:
  Picture(const LoweredGraph& graph, const Plan& plan, std::span<const TaskTime> times)
      : graph_(graph), plan_(plan), times_(times), timeline_(TimelineOf(graph, plan, times)) {
    for (const Work& work : plan.partition.work) {
      const TaskKind kind = KindOfTask(graph, work);
      shades_[kind].try_emplace(GroupOf(work), 0);
    }
    for (auto& [kind, groups] : shades_) {
      size_t shade = 0;
      for (auto& [group, place] : groups) place = shade++;
    }
  }

  std::string Text(std::string_view title) {
    const auto streams = static_cast<double>(plan_.schedule.streams.size());
    const double axis = kTop + streams * (kLane + kGap);
    const double height = axis + 40 + kLegendRow * static_cast<double>(shades_.size()) + 12;
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1:.0f}\" viewBox=\"0 0 "
        "{0} "
        "{1:.0f}\" font-family=\"sans-serif\" font-size=\"13\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        "<text x=\"{2}\" y=\"24\" font-size=\"16\">{3}</text>\n",
        kWidth, height, kLeft, Escaped(title));
    AddMarks(axis);
    for (size_t s = 0; s < plan_.schedule.streams.size(); ++s) AddLane(s);
    AddLegend(axis + 40);
    return text_ + "</svg>\n";
  }

 private:
  // Within a kind.
  static int32_t GroupOf(const Work& work) {
    return std::max({work.weight, work.group, work.update});
  }

  double X(double seconds) const {
    const double whole = timeline_.seconds > 0 ? timeline_.seconds : 1;
    return kLeft + (kWidth - kLeft - kRight) * seconds / whole;
  }

  void AddMarks(double axis) {
    const double whole = 1e3 * timeline_.seconds;
    const double every = MarkEvery(whole);
    for (int i = 0; i * every <= whole; ++i) {
      const double x = X(1e-3 * i * every);
      text_ += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>\n"
          "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\" "
          "fill=\"#555\">{4:g}{5}</text>\n",
          x, kTop - 6, axis, axis + 16, i * every, i == 0 ? " ms" : "");
    }
  }

  void AddLane(size_t stream) {
    const double y = kTop + static_cast<double>(stream) * (kLane + kGap);
    const double busy =
        timeline_.seconds > 0 ? 100 * timeline_.busy[stream] / timeline_.seconds : 0;
    text_ += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"#f4f4f4\"/>\n"
        "<text x=\"8\" y=\"{:.1f}\">stream {}</text>\n"
        "<text x=\"8\" y=\"{:.1f}\" fill=\"#555\">{:.0f} % busy</text>\n",
        kLeft, y, kWidth - kLeft - kRight, kLane, y + 20, stream, y + 37, busy);
    for (const int32_t task : plan_.schedule.streams[stream]) AddTask(static_cast<size_t>(task), y);
  }

  void AddTask(size_t i, double y) {
    const Task& task = plan_.partition.tasks[i];
    const Work& work = plan_.partition.work[i];
    const TaskKind kind = KindOfTask(graph_, work);
    const auto& groups = shades_[kind];
    const size_t shade = groups.at(GroupOf(work));
    const double x = X(times_[i].start);
    // A white edge parts tasks that are wide enough to have one.
    const double width = std::max(0.4, X(times_[i].finish) - x);
    const std::string_view edge = width > 3 ? " stroke=\"white\" stroke-width=\"0.6\"" : "";
    text_ += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\"{}><title>task {} "
        "{}, steps {}:{}, rows {}:{}, {:.1f} us, predicted {:.1f}</title></rect>\n",
        x, y, width, kLane, Colour(kind, shade, groups.size()), edge, i, Escaped(task.name),
        task.time_begin, task.time_end, task.row_begin, task.row_end,
        1e6 * (times_[i].finish - times_[i].start), 1e6 * task.cost);
  }

  void AddLegend(double y) {
    for (const auto& [kind, groups] : shades_) {
      const KindTotals& totals = timeline_.of(kind);
      const size_t swatches = std::min<size_t>(groups.size(), 6);
      for (size_t i = 0; i < swatches; ++i) {
        const size_t shade = swatches < 2 ? 0 : i * (groups.size() - 1) / (swatches - 1);
        text_ += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"14\" height=\"14\" fill=\"{}\"/>\n",
            kLeft + 15 * static_cast<double>(i), y - 12, Colour(kind, shade, groups.size()));
      }
      std::string words =
          fmt::format("{}: {} tasks of {} group{}, {:.3f} ms", Name(kind), totals.tasks,
                      groups.size(), groups.size() == 1 ? "" : "s", 1e3 * totals.taken);
      if (kind != TaskKind::kLoop && totals.taken > 0) {
        words += fmt::format(", {:.0f} % of it beside a loop on another stream",
                             100 * totals.beside_loops / totals.taken);
      }
      text_ += fmt::format("<text x=\"{}\" y=\"{:.1f}\">{}</text>\n", kLeft + 100, y, words);
      y += kLegendRow;
    }
  }

  const LoweredGraph& graph_;
  const Plan& plan_;
  std::span<const TaskTime> times_;
  const Timeline timeline_;
  // By kind the groups it has, or the weights that are packed, with their shades.
  std::map<TaskKind, std::map<int32_t, size_t>> shades_;
  std::string text_;
};

}  // namespace

std::string PrintSvg(const LoweredGraph& graph, const Plan& plan, std::span<const TaskTime> times,
                     std::string_view title) {
  return Picture(graph, plan, times).Text(title);
}

}  // namespace turbolstm
