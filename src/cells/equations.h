#pragma once

#include <map>
#include <string>

#include "cells/cell.h"

namespace turbolstm {

// Letters for sizes: with {{8, "H"}} a slice [8, 16) prints as [H:2H].
using SizeLetters = std::map<int64_t, std::string>;

// One line for each named value of the graph, operands before their readers; unnamed values stand
// where they are used: "c = f * c[t-1] + i * g". Products with matrices are written @, rows of a
// packed value a[0:H]. The text is for people; it cannot be read back.
std::string PrintEquations(const Graph& graph, const SizeLetters& letters = {});

// The equations of a cell, from the graph that it builds.
std::string PrintEquations(const Cell& cell);

}  // namespace turbolstm
