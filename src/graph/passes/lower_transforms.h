#pragma once

#include "graph/graph.h"

namespace turbolstm {

// Expands the transforms of delayed edges into operators; all other passes, differentiation and
// execution want graphs without them.
//
// Zoneout p (Krueger et al., arXiv 1606.01305) on an edge with source s: one carried value
//   z(t) = m(t) z(t-1) + (1 - m(t)) s(t),   m(t) ~ Bernoulli(p) in training, p otherwise
// for all edges with the same s, p and direction; they read z instead of s, with their own delay
// and initial value, and z begins with the last row of that. Other readers of s, and outputs, still
// see s itself.
// Variational dropout p (Gal & Ghahramani, arXiv 1512.05287): in training the delayed value,
// initial values included, times one mask a sequence, Bernoulli(1 - p) / (1 - p), shared by all
// edges with the same s and p; else the value, whatever p. Zoneout comes first where both are. As a
// mask is the same at all steps, the value is dropped before the delay, the initial ones by
// themselves: so nothing stands between the edge and a matrix product that reads it.
void LowerTransforms(Graph* graph);

}  // namespace turbolstm
