// Plans: what networks are cut into and when it runs. What people call is
// python/turbolstm/planning.py.
#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api/layer_graph.h"
#include "api/recurrent_options.h"
#include "bind.h"
#include "cells/equations.h"
#include "graph/dot.h"
#include "kernels/cell_kernels.h"
#include "plan/any_inputs.h"
#include "plan/dependencies.h"
#include "plan/executable.h"
#include "plan/print.h"
#include "plan/timeline.h"
#include "spec.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace turbolstm {
namespace {

// (name, stream, first step, last step + 1, first sequence, last sequence + 1, begin, end)
nb::list TasksOf(const Plan& plan, const std::vector<TaskTime>& times) {
  nb::list tasks;
  for (size_t stream = 0; stream < plan.schedule.streams.size(); ++stream) {
    for (const int32_t id : plan.schedule.streams[stream]) {
      const Task& task = plan.partition.tasks[static_cast<size_t>(id)];
      const TaskTime& time = times[static_cast<size_t>(id)];
      tasks.append(nb::make_tuple(task.name, stream, task.time_begin, task.time_end, task.row_begin,
                                  task.row_end, time.start, time.finish));
    }
  }
  return tasks;
}

nb::dict Planned(const nb::dict& options, int64_t steps, int64_t batch, bool training, bool measure,
                 const std::string& precision, const std::string& schedule, int threads,
                 int64_t time_block, int64_t row_tile) {
  const RecurrentOptions layers = OptionsOf(SpecOf(options));
  ExecutableOptions how;
  how.precision = PrecisionNamed(precision);
  how.streams = threads;
  how.schedule = ScheduleNamed(schedule);
  how.time_block = time_block;
  how.row_tile = row_tile;
  how.verify = true;
  std::string network_dot, tasks_dot, text, trace, svg;
  std::unique_ptr<Executable> executable;
  const std::string title = fmt::format("{}, T {}, B {}", layers.cell, steps, batch);
  std::vector<TaskTime> times;
  {
    const nb::gil_scoped_release release;
    RegisterKernelsOnce();
    const Graph graph = LayerGraph(layers, training);
    const Analysis analysis = Analyse(graph);
    network_dot = PrintDot(graph, &analysis);
    executable = std::make_unique<Executable>(graph, how);
    executable->SetShape(steps, batch);
    const Plan& plan = executable->plan();
    times = plan.schedule.estimate;
    if (measure) {
      const AnyInputs inputs(executable.get(), steps, batch);
      executable->Run();  // its memory is warm then
      executable->RecordTimes(true);
      executable->Run();
      times = executable->task_times();
    }
    const Dependencies dependencies = DeriveDependencies(plan.partition.tasks);
    tasks_dot = PrintTaskGraph(plan.partition.tasks, dependencies, &plan.schedule);
    text = PrintSchedule(plan.partition.tasks, dependencies, plan.schedule);
    svg = PrintSvg(executable->lowered(), plan, times, title);
    trace = PrintTrace(plan.partition.tasks, plan.schedule, times);
  }
  const Plan& plan = executable->plan();
  nb::dict result;
  result["streams"] = plan.schedule.streams.size();
  result["time_block"] = plan.partition.options.time_block;
  result["row_tile"] = plan.partition.options.row_tile;
  result["estimate"] = plan.schedule.EstimatedSeconds();
  result["memory_bytes"] = executable->memory_bytes();
  result["tasks"] = TasksOf(plan, times);
  result["schedule"] = text;
  result["trace"] = trace;
  result["svg"] = svg;
  result["tasks_dot"] = tasks_dot;
  result["network_dot"] = network_dot;
  return result;
}

}  // namespace

void BindPlan(nb::module_& module) {
  module.def("_plan", &Planned, "options"_a, "steps"_a, "batch"_a, "training"_a, "measure"_a,
             "precision"_a, "schedule"_a, "threads"_a, "time_block"_a, "row_tile"_a,
             "turbolstm.plan calls this.");
  module.def(
      "equations", [](const std::string& cell) { return PrintEquations(FindCell(cell)); }, "cell"_a,
      "The equations of a cell as text, one line each.");
}

}  // namespace turbolstm
