#include "ops/persistent_loop/row_text_cuda.h"

#include <fmt/format.h>

namespace turbolstm::cuda {

std::string RowNumberText(const LoopRows& rows, std::string_view b, std::string_view t) {
  switch (rows.kind) {
    case RowKind::kShared:
      return "0";
    case RowKind::kBatch:
      return std::string(b);
    case RowKind::kStep:
      break;
  }
  if (rows.period == 0) return fmt::format("{} * batch + {}", t, b);
  return fmt::format("{} % {} * batch + {}", t, rows.period, b);
}

std::string HasPastText(const LoopRows& rows) {
  return fmt::format("{} && !(resets && resets[{} * batch + at.b])",
                     rows.forward ? "t > 0" : "t + 1 < at.length",
                     !rows.adjoint  ? "t"
                     : rows.forward ? "(t - 1)"
                                    : "(t + 1)");
}

std::string InitText(const LoopRows& rows, size_t input) {
  if (!rows.has_init) return "nullptr";
  return fmt::format(
      "(args.in[{0}].init && !(resets && resets[t * batch + at.b] == kFromZeros)\n"
      "                ? args.in[{0}].init + at.b * args.in[{0}].init_row_bytes : nullptr)",
      input);
}

std::string AddressText(const LoopRows& rows, size_t input, std::string_view past) {
  if (rows.delay == 0)
    return fmt::format("RowAt(args.in[{}], {})", input, RowNumberText(rows, "at.b", "t"));
  const std::string_view source = rows.forward ? "(t - 1)" : "(t + 1)";
  return fmt::format("{} ? RowAt(args.in[{}], {}) : {}", past, input,
                     RowNumberText(rows, "at.b", source), InitText(rows, input));
}

}  // namespace turbolstm::cuda
