#pragma once

#include <cstdint>

namespace turbolstm {

// Over a row of n floats, in an order of additions that n and the CPU target alone decide; sums are
// taken in double precision.

// -infinity for n = 0.
float MaxOfRow(const float* x, int64_t n);

double SumOfRow(const float* x, int64_t n);

// The sum of exp(x[i] - shift), for finite shift >= x[i]; each term is within two units in its last
// place.
double SumOfExpOfRow(const float* x, int64_t n, float shift);

// y = exp(x - shift) * scale for such a shift.
void ScaledExpOfRow(const float* x, int64_t n, float shift, float scale, float* y);

}  // namespace turbolstm
