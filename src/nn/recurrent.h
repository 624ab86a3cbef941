#pragma once

#include <string>
#include <vector>

#include "cells/cell.h"
#include "nn/model.h"

namespace turbolstm {

enum class InitialState : uint8_t {
  kZero,
  kGiven,    // an input of the graph for each state, named as RecurrentState::input says
  kLearned,  // a parameter of that name, the same for all sequences, zero at first
};

struct RecurrentOptions {
  std::string cell = "lstm";
  CellOptions size;  // input is that of the first layer
  int64_t layers = 1;
  bool bidirectional = false;
  // Of each layer where not bidirectional; empty: all forward.
  std::vector<Direction> directions;
  // Layers behind the first add their input to their output.
  bool residual = false;
  double dropout = 0;            // between layers, so not behind the last
  double zoneout = 0;            // elements of carried states that keep their previous value
  double recurrent_dropout = 0;  // variational, on h where it enters matrix products
  InitialState initial = InitialState::kZero;
};

// A state of one layer and direction.
struct RecurrentState {
  std::string input;   // "lstm.h_0_l0_reverse": where the initial value is bound
  std::string output;  // "lstm.h_n_l0_reverse"
  Value final;         // Batch [delay * n], oldest first: what the input wants to carry on
};

struct RecurrentResult {
  Value output;  // Step [D * S]; S = P with a projection, else H
  // Batch [D * S]: what the last layer puts out at the last valid step of each direction's walk;
  // for an empty sequence the initial state (with residual connections: zeros).
  Value last;
  std::vector<RecurrentState> states;  // by layer, direction (forward first), state
};

// Layers of any cell, with PyTorch's parameter names: <name>.weight_ih_l0, <name>.bias_hh_l1,
// <name>.weight_hr_l0, with _reverse behind it for the second direction of a bidirectional layer.
// Nodes are named alike: <name>.h_l0. x: Step [I].
RecurrentResult Recurrent(Model& model, const std::string& name, const Value& x,
                          const RecurrentOptions& options);

// Adds the final states to the graph's outputs.
void AddFinalStates(Model& model, const RecurrentResult& result);

}  // namespace turbolstm
