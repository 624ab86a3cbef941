#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/table.h"
#include "execution/device_operator.h"
#include "graph/graph.h"
#include "turbolstm/device.h"

namespace turbolstm::cli {
namespace {

constexpr Op kLastOp = Op::kCrossEntropy;

// How the CPU backend runs an operator.
std::string_view OnCpu(Op op) {
  const OpTraits& traits = Traits(op);
  switch (op) {
    case Op::kInput:
    case Op::kParameter:
      return "bound memory";
    case Op::kSlice:
    case Op::kConcat:
      return "view, else copy";
    case Op::kOuter:
      return "matrix product";
    case Op::kSumRows:
      return "vector sum";
    default:
      break;
  }
  if (traits.matrix) return "packed matrix product";
  return traits.pointwise ? "fused vector code" : "loop";
}

std::string Operands(const OpTraits& traits) {
  return traits.arity < 0 ? "any" : fmt::format("{}", traits.arity);
}

void ListOps() {
  using Align = Table::Align;
  Table table(
      {Align::kLeft, Align::kRight, Align::kLeft, Align::kLeft, Align::kLeft, Align::kLeft});
  table.Add({"operator", "operands", "reference", "cpu", "cuda", "ascend"});
  for (int i = 0; i <= static_cast<int>(kLastOp); ++i) {
    const Op op = static_cast<Op>(i);
    table.Add({std::string(Traits(op).name), Operands(Traits(op)), "fp64", std::string(OnCpu(op)),
               std::string(Name(DeviceKernelOf(op))), "-"});
  }
  fmt::print("{}", table.Text());
  fmt::print("\n-: not on this backend yet.\n");
  for (const BackendInfo& backend : ListBackends()) {
    if (backend.kind == DeviceKind::kCuda && !backend.absence.empty()) {
      fmt::print("cuda does not run here: {}.\n", backend.absence);
    }
  }
}

}  // namespace

void AddOps(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("ops", "Shows which operator of the graph runs on which backend");
  command->footer(
      "The reference interpreter (float64, plain loops) is what every backend is tested against.\n"
      "On the CPU, pointwise operators that follow each other run as one pass, in vector\n"
      "instructions chosen at run time. On CUDA they run as one kernel, compiled ahead of time "
      "for\n"
      "the built-in cells; matrix products are cuBLASLt's.\n\n"
      "Example:\n"
      "  turbolstm ops");
  command->callback([] { ListOps(); });
}

}  // namespace turbolstm::cli
