#include "execution/padded_rows.h"

#include <vector>

namespace turbolstm {
namespace {

// Narrower rows are no operands of products; what they take would be doubled and more.
constexpr int64_t kFewColumns = 8;

}  // namespace

int64_t PaddedColumns(int64_t columns, DType dtype) {
  const int64_t chunk = kRowAlignment / static_cast<int64_t>(SizeOf(dtype));
  return (columns + chunk - 1) / chunk * chunk;
}

void PadRows(LoweredGraph* graph) {
  std::vector<bool> seen(graph->buffers.size(), false);
  for (const NamedView& output : graph->outputs) {
    if (output.view.buffer >= 0) seen[static_cast<size_t>(output.view.buffer)] = true;
  }
  for (size_t i = 0; i < graph->buffers.size(); ++i) {
    Buffer& buffer = graph->buffers[i];
    const bool rows = buffer.domain != Domain::kStatic && buffer.width >= kFewColumns;
    if (!rows || seen[i] || buffer.source != BufferSource::kComputed) continue;
    buffer.width = PaddedColumns(buffer.width, buffer.dtype);
  }
}

}  // namespace turbolstm
