#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cells/parameter_spec.h"
#include "graph/builder.h"

namespace turbolstm {

struct CellOptions {
  int64_t input = 0;       // I
  int64_t hidden = 0;      // H
  int64_t projection = 0;  // P: size of h where the cell projects it; 0: none
  int64_t heads = 1;       // blocks of a block-diagonal recurrent weight; divides H
  int32_t delay = 2;       // steps between a delayed second reading of h and its use
  bool bias = true;
  std::optional<double> forget_bias;  // initial bias of a forget gate; else drawn like the rest
  std::optional<double> clip;         // bounds what goes into an activation to [-clip, clip]
  bool coupled_gates = false;         // forget gate = 1 - input gate
};

// Where a cell stands in a network.
struct CellPlace {
  std::string prefix;  // of the names of parameters and nodes: "lstm."
  std::string suffix;  // "_l0", "_l0_reverse"
  // The initial value of a state: Batch or Static [delay * n], oldest first, or undefined for
  // zeros. Not set: zeros.
  std::function<Value(const std::string& state, int64_t n)> initial;
  // Krueger et al. 2017: the probability that an element of a carried state keeps its previous
  // value in training; otherwise both are mixed in this proportion.
  double zoneout = 0;
  // Gal and Ghahramani 2016: one mask a sequence on h where it enters matrix products.
  float recurrent_dropout = 0;
};

struct CellState {
  std::string name;   // "h", "c"
  int64_t size = 0;   // n
  int32_t delay = 1;  // how many past values are carried
  Value value;        // Step [n], as the equations define it
  Value carried;      // Step [n], what the next step reads: other than value under zoneout
  Value initial;      // Batch or Static [delay * n]; undefined: zeros
  Value final;        // Batch [delay * n], oldest first: the last carried values
};

struct CellResult {
  Value output;  // Step: [H], or [P] after a projection; as carried
  std::vector<CellState> states;
  std::vector<ParameterSpec> parameters;
};

// What a cell's equations are written with: parameters by name, states and their past.
class CellScope {
 public:
  CellScope(Builder* builder, const Value& x, const CellOptions& options, const CellPlace& place);

  const Value& x() const { return x_; }  // Step [I]
  const CellOptions& options() const { return options_; }
  int64_t H() const { return options_.hidden; }

  // Drawn like all of PyTorch's recurrent parameters.
  Value Weight(const std::string& name, std::vector<int64_t> shape);
  Value Parameter(const std::string& name, std::vector<int64_t> shape, Initializer init);
  // a + the bias, or a where the cell has none.
  Value PlusBias(const Value& a, const std::string& name);
  // weight_ih x + bias_ih: [gates * H].
  Value FromInput(int64_t gates);
  // weight_ih x + bias_ih + weight_hh h[t-1] + bias_hh: [gates * H].
  Value Gates(int64_t gates, const Value& h);
  // Makes rows [gate * H, (gate + 1) * H) of the two biases sum to options.forget_bias, if given.
  void InitForgetGate(int64_t gate);

  // x bounded by options.clip, if given.
  Value Clipped(const Value& x);
  // options.coupled_gates.
  bool CouplesGates();

  Value Constant(double number) { return builder_->Constant(number); }
  // delay: the furthest past that is read. zoneout: whether that option touches this state.
  Value State(const std::string& name, int64_t n, int32_t delay = 1, bool zoneout = true);
  // Gives the state its value at this step.
  Value Define(const Value& state, const Value& next);
  // The state `delay` steps before, as carried.
  Value Past(const Value& state, int32_t delay = 1) const;
  // The same where it enters a matrix product.
  Value Recurrent(const Value& state, int32_t delay = 1) const;
  // Names the node in the printed graph and in the equations.
  Value Named(const std::string& name, const Value& value) const;

  // Throws, naming the cell, when an option was given that its equations never asked for.
  CellResult Finish(std::string_view cell, const Value& output);

 private:
  std::string Full(const std::string& name) const { return place_.prefix + name + place_.suffix; }
  const CellState& StateOf(const Value& state) const;

  Builder* builder_;
  Value x_;
  const CellOptions& options_;
  const CellPlace& place_;
  std::vector<CellState> states_;
  std::vector<ParameterSpec> parameters_;
  bool has_forget_gate_ = false;
  bool clips_ = false;
  bool couples_ = false;
};

// A recurrent cell: a few lines of equations.
struct Cell {
  std::string_view name;
  std::string_view description;  // one line, with the source of the equations
  std::function<Value(CellScope& cell)> equations;
  bool projects = false;  // wants options.projection > 0

  // Adds the cell to the builder's graph, walking in the builder's direction; x: Step [I].
  CellResult Build(Builder* builder, const Value& x, const CellOptions& options,
                   const CellPlace& place = {}) const;
};

// Those that come with the library, in the order in which they are listed for people.
const std::vector<Cell>& AllCells();
// Adds a cell of the user's, for as long as the process lives; any thread may. Error: there is one
// of that name.
const Cell& AddCell(const std::string& name, const std::string& description,
                    std::function<Value(CellScope& cell)> equations, bool projects = false);
// Either kind. Throws, with all names, when there is none of that name.
const Cell& FindCell(std::string_view name);

}  // namespace turbolstm
