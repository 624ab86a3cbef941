// Where the rows of values lie in the memory of a device, and how a kernel finds the row that a
// delayed operand reads. Plain structs and device functions without includes: this text is also
// what kernels compiled at run time begin with.
#pragma once

namespace turbolstm::cuda {

// Of Sequences::resets: the sequence starts anew from zeros; another but 0: from its initial
// values.
constexpr unsigned char kFromZeros = 2;

// The sequences of a batch, longest first, as graph/walk and plan/row_layout describe them; but on
// a device every step has `batch` rows, so that one recorded graph of kernels serves all lengths.
// Rows of padded steps hold zeros.
struct Sequences {
  long long steps = 0;
  long long batch = 0;
  const int* lengths = nullptr;           // [B] by place; null: all have `steps`
  const int* numbers = nullptr;           // [B]: the caller's number of the sequence at a place
  const unsigned char* resets = nullptr;  // [T, B] by place; null: none
};

enum class RowKind : signed char {
  kShared,  // one row for all
  kBatch,   // row b
  kStep,    // row (t mod period) * batch + b
};

// An operand as a row operator reads it.
struct RowOperand {
  const char* data = nullptr;  // first element of row 0; null: zeros
  long long row_bytes = 0;
  long long period = 1;           // kStep: how many steps are held
  const char* init = nullptr;     // history row 0 of sequence 0; null: zeros
  long long init_row_bytes = 0;   // from sequence to sequence; 0: the same for all
  long long init_step_bytes = 0;  // from history row to history row
  int delay = 0;
  RowKind kind = RowKind::kShared;
  signed char direction = 1;  // of the reader: 1 forward, -1 in reverse
  bool adjoint = false;       // see graph/walk.h, Walk::ReadAhead
  signed char dtype = 0;      // turbolstm::DType
};

struct RowOutput {
  char* data = nullptr;  // first element of row 0
  long long row_bytes = 0;
  long long period = 1;  // kStep
  RowKind kind = RowKind::kStep;
  signed char dtype = 0;
};

// The rows that a kernel runs over: all sequences of steps [time_begin, time_begin + steps), or the
// sequences once (steps = 1) when `padded` is false, since then no row is padding.
struct RowRange {
  long long time_begin = 0;
  long long steps = 1;
  bool padded = false;  // rows at or behind a sequence's length are to be written as zeros
};

#ifdef __CUDACC__

__device__ inline long long RowIndex(RowKind kind, long long period, long long batch, long long t,
                                     long long b) {
  if (kind == RowKind::kShared) return 0;
  if (kind == RowKind::kBatch) return b;
  return (t < period ? t : t % period) * batch + b;  // a division is dear
}

__device__ inline long long LengthOf(const Sequences& sequences, long long b) {
  return sequences.lengths ? sequences.lengths[b] : sequences.steps;
}

__device__ inline bool IsPadding(const Sequences& sequences, const RowRange& range, long long t,
                                 long long b) {
  return range.padded && sequences.lengths && t >= sequences.lengths[b];
}

// The latest position in (after, until] with a reset, or -1.
__device__ inline long long LatestReset(const Sequences& sequences, long long b, long long length,
                                        bool forward, long long after, long long until) {
  if (!sequences.resets) return -1;
  for (long long u = until < length - 1 ? until : length - 1; u > after && u >= 0; --u) {
    const long long t = forward ? u : length - 1 - u;
    if (sequences.resets[t * sequences.batch + b]) return u;
  }
  return -1;
}

// Row `history` of the initial value of an operand for a sequence.
__device__ inline const char* InitAddress(const RowOperand& x, long long b, long long history) {
  return x.init ? x.init + b * x.init_row_bytes + history * x.init_step_bytes : nullptr;
}

__device__ inline const char* StepAddress(const RowOperand& x, const Sequences& sequences,
                                          long long t, long long b) {
  if (!x.data) return nullptr;
  return x.data + RowIndex(x.kind, x.period, sequences.batch, t, b) * x.row_bytes;
}

// What the reader at position u of a walk finds `delay` positions before itself (Walk::Read). The
// reader may stand behind the end.
__device__ inline const char* ReadBehind(const RowOperand& x, const Sequences& sequences,
                                         long long u, long long b, bool forward) {
  const long long length = LengthOf(sequences, b);
  const long long reset = LatestReset(sequences, b, length, forward, u - x.delay, u);
  if (reset >= 0) {
    const long long at = forward ? reset : length - 1 - reset;
    if (sequences.resets[at * sequences.batch + b] == kFromZeros) return nullptr;
    return InitAddress(x, b, u - reset);
  }
  if (u < x.delay) return InitAddress(x, b, u);
  const long long source = u - x.delay;
  return StepAddress(x, sequences, forward ? source : length - 1 - source, b);
}

// Likewise `delay` positions ahead, for adjoints (Walk::ReadAhead).
__device__ inline const char* ReadAhead(const RowOperand& x, const Sequences& sequences,
                                        long long u, long long b, bool forward) {
  const long long length = LengthOf(sequences, b);
  const long long source = u + x.delay;
  if (source >= length) return nullptr;
  if (LatestReset(sequences, b, length, forward, u, source) >= 0) return nullptr;
  return StepAddress(x, sequences, forward ? source : length - 1 - source, b);
}

// The row that an operand reads at a valid step of a sequence; null stands for zeros.
__device__ inline const char* RowAddress(const RowOperand& x, const Sequences& sequences,
                                         long long t, long long b) {
  if (x.delay == 0) return StepAddress(x, sequences, t, b);
  const bool forward = (x.direction > 0) != x.adjoint;
  const long long u = forward ? t : LengthOf(sequences, b) - 1 - t;
  return x.adjoint ? ReadAhead(x, sequences, u, b, forward)
                   : ReadBehind(x, sequences, u, b, forward);
}

__device__ inline char* RowAddress(const RowOutput& y, const Sequences& sequences, long long t,
                                   long long b) {
  return y.data + RowIndex(y.kind, y.period, sequences.batch, t, b) * y.row_bytes;
}

#endif  // __CUDACC__

}  // namespace turbolstm::cuda
