#include "api/recurrent_options.h"

namespace turbolstm {

RecurrentOptions OptionsOf(const RecurrentSpec& spec) {
  RecurrentOptions options;
  options.cell = spec.cell;
  options.size.input = spec.input;
  options.size.hidden = spec.hidden;
  options.size.projection = spec.projection;
  options.size.heads = spec.heads;
  options.size.delay = spec.delay;
  options.size.bias = spec.bias;
  options.size.clip = spec.clip;
  options.size.coupled_gates = spec.coupled_gates;
  options.layers = spec.layers;
  options.bidirectional = spec.bidirectional;
  for (const bool reversed : spec.reversed) {
    options.directions.push_back(reversed ? Direction::kReverse : Direction::kForward);
  }
  options.residual = spec.residual;
  options.dropout = spec.dropout;
  options.zoneout = spec.zoneout;
  options.recurrent_dropout = spec.recurrent_dropout;
  options.initial = spec.given_states ? InitialState::kGiven : InitialState::kZero;
  return options;
}

}  // namespace turbolstm
