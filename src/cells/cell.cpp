#include "cells/cell.h"

#include "base/error.h"

namespace turbolstm {

CellScope::CellScope(Builder* builder, const Value& x, const CellOptions& options,
                     const CellPlace& place)
    : builder_(builder), x_(builder, x.edge()), options_(options), place_(place) {}

Value CellScope::Weight(const std::string& name, std::vector<int64_t> shape) {
  return Parameter(name, std::move(shape), Initializer::UniformFan(H()));
}

Value CellScope::Parameter(const std::string& name, std::vector<int64_t> shape, Initializer init) {
  parameters_.push_back({Full(name), shape, init, {}});
  return builder_->Parameter(Full(name), std::move(shape));
}

Value CellScope::PlusBias(const Value& a, const std::string& name) {
  return options_.bias ? a + Weight(name, {a.features()}) : a;
}

Value CellScope::FromInput(int64_t gates) {
  return PlusBias(MatMul(Weight("weight_ih", {gates * H(), options_.input}), x_), "bias_ih");
}

Value CellScope::Gates(int64_t gates, const Value& h) {
  const Value from_input = FromInput(gates);
  const Value weight = Weight("weight_hh", {gates * H(), h.features()});
  return PlusBias(from_input + MatMul(weight, Recurrent(h)), "bias_hh");
}

void CellScope::InitForgetGate(int64_t gate) {
  has_forget_gate_ = true;
  if (!options_.forget_bias) return;
  for (ParameterSpec& spec : parameters_) {
    const bool input = spec.name == Full("bias_ih");
    if (!input && spec.name != Full("bias_hh")) continue;
    const double value = input ? *options_.forget_bias : 0.0;
    spec.rows.push_back({gate * H(), H(), Initializer::Constant(value)});
  }
}

Value CellScope::Clipped(const Value& x) {
  clips_ = true;
  if (!options_.clip) return x;
  return Max(Min(x, Constant(*options_.clip)), Constant(-*options_.clip));
}

bool CellScope::CouplesGates() {
  couples_ = true;
  return options_.coupled_gates;
}

Value CellScope::State(const std::string& name, int64_t n, int32_t delay, bool zoneout) {
  CellState state;
  state.name = name;
  state.size = n;
  state.delay = delay;
  state.value = builder_->State(Full(name), n);
  state.carried = zoneout && place_.zoneout > 0
                      ? builder_->State(place_.prefix + name + "_carried" + place_.suffix, n)
                      : state.value;
  if (place_.initial) state.initial = place_.initial(name, delay * n);
  states_.push_back(state);
  return state.value;
}

Value CellScope::Define(const Value& state, const Value& next) {
  builder_->Define(state, next);
  const Value carried = StateOf(state).carried;
  if (carried.id() != state.id()) {
    const Value keeps =
        builder_->RandomMask(Domain::kStep, state.features(), place_.zoneout, 1.0, place_.zoneout);
    builder_->Define(carried, keeps * Past(state) + (1.0 - keeps) * state);
  }
  return state;
}

Value CellScope::Past(const Value& value, int32_t delay) const {
  const CellState& state = StateOf(value);
  Value initial = state.initial;
  if (initial.defined() && delay < state.delay) {
    initial = Slice(initial, (state.delay - delay) * state.size, delay * state.size);
  }
  return state.carried.Delayed(delay, initial);
}

Value CellScope::Recurrent(const Value& state, int32_t delay) const {
  const Value past = Past(state, delay);
  return place_.recurrent_dropout > 0 ? past.WithVariationalDropout(place_.recurrent_dropout)
                                      : past;
}

Value CellScope::Named(const std::string& name, const Value& value) const {
  return value.Named(Full(name));
}

CellResult CellScope::Finish(std::string_view cell, const Value& output) {
  TL_CHECK(has_forget_gate_ || !options_.forget_bias,
           "[{}] got a forget bias, but the cell has no forget gate", cell);
  TL_CHECK(clips_ || !options_.clip, "[{}] got a clip, but the cell has none", cell);
  TL_CHECK(couples_ || !options_.coupled_gates,
           "[{}] got coupled gates, but the cell has none to couple", cell);
  Value carried = output;
  for (CellState& state : states_) {
    state.final = Final(Past(state.value, state.delay));
    if (state.value.id() == output.id()) carried = state.carried;
  }
  return {carried, std::move(states_), std::move(parameters_)};
}

const CellState& CellScope::StateOf(const Value& value) const {
  for (const CellState& state : states_) {
    if (state.value.id() == value.id()) return state;
  }
  Fail("[cell] '{}' is no state of it", builder_->graph().Label(value.id()));
}

CellResult Cell::Build(Builder* builder, const Value& x, const CellOptions& options,
                       const CellPlace& place) const {
  TL_CHECK(x.defined() && x.features() == options.input,
           "[{}] the input has {} features, the cell wants {}", name,
           x.defined() ? x.features() : 0, options.input);
  TL_CHECK(options.hidden > 0, "[{}] hidden size is {}, wants > 0", name, options.hidden);
  TL_CHECK(projects ? options.projection > 0 : options.projection == 0,
           "[{}] projection size is {}, wants {}", name, options.projection,
           projects ? "> 0" : "0: this cell projects nothing");
  TL_CHECK(!options.clip || *options.clip > 0, "[{}] clip is {}, wants > 0", name,
           options.clip.value_or(0));
  TL_CHECK(options.delay > 0, "[{}] delay is {}, wants > 0", name, options.delay);
  TL_CHECK(options.heads > 0 && options.hidden % options.heads == 0,
           "[{}] {} heads do not divide hidden size {}", name, options.heads, options.hidden);
  CellScope scope(builder, x, options, place);
  return scope.Finish(name, equations(scope));
}

}  // namespace turbolstm
