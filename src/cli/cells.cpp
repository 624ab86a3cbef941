#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cells/equations.h"
#include "cli/commands.h"
#include "cli/table.h"
#include "graph/analysis.h"

namespace turbolstm::cli {
namespace {

constexpr int64_t kSize = 8;  // of every dimension; kinds do not depend on it

// "GemmLoop, 1 product deep" for every loop of the cell's graph.
std::string LoopsOf(const Cell& cell) {
  Graph graph;
  Builder builder(&graph);
  CellOptions options;
  options.input = kSize;
  options.hidden = kSize;
  options.projection = cell.projects ? kSize / 2 : 0;
  const Value x = builder.Input("x", Domain::kStep, {kSize});
  graph.AddOutput("y", cell.Build(&builder, x, options).output.id());
  std::vector<std::string> loops;
  for (const Region& region : Analyse(graph).regions) {
    if (!region.is_loop()) continue;
    loops.push_back(region.levels > 0 ? fmt::format("{} x{}", Name(region.kind), region.levels)
                                      : std::string(Name(region.kind)));
  }
  return loops.empty() ? "none" : fmt::format("{}", fmt::join(loops, ", "));
}

void ListCells() {
  Table table({Table::Align::kLeft, Table::Align::kLeft, Table::Align::kLeft});
  table.Add({"cell", "loop over time", "what it is"});
  for (const Cell& cell : AllCells()) {
    table.Add({std::string(cell.name), LoopsOf(cell), std::string(cell.description)});
  }
  fmt::print("{}", table.Text());
  fmt::print(
      "\nx2: so many matrix products of a step wait for each other. 'turbolstm cells NAME' prints "
      "the equations.\n");
}

void ShowCell(const std::string& name) {
  const Cell& cell = FindCell(name);
  fmt::print("{}: {}\nloop over time: {}\n\n{}", cell.name, cell.description, LoopsOf(cell),
             PrintEquations(cell));
}

}  // namespace

void AddCells(CLI::App& app) {
  const auto name = std::make_shared<std::string>();
  CLI::App* const command =
      app.add_subcommand("cells", "Lists the recurrent cells, or prints one's equations");
  command->add_option("name", *name, "cell to print");
  command->footer(
      "Examples:\n"
      "  turbolstm cells\n"
      "  turbolstm cells gru");
  command->callback([name] { name->empty() ? ListCells() : ShowCell(*name); });
}

}  // namespace turbolstm::cli
