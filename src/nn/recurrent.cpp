#include "nn/recurrent.h"

#include "base/error.h"
#include "nn/layers.h"

namespace turbolstm {
namespace {

class Stack {
 public:
  Stack(Model& model, const std::string& name, const RecurrentOptions& options)
      : model_(model), prefix_(name + "."), options_(options), cell_(FindCell(options.cell)) {
    Check();
  }

  RecurrentResult Build(Value x) {
    for (int64_t layer = 0; layer < options_.layers; ++layer) {
      const Value input = layer > 0 ? Dropout(x, options_.dropout) : x;
      std::vector<Value> outputs;
      std::vector<Value> last;
      for (const bool reverse_twin : Twins()) {
        Builder builder(&model_.graph(), DirectionOf(layer, reverse_twin));
        const CellResult result = BuildCell(layer, reverse_twin, builder, input);
        Value output = result.output;
        if (options_.residual && layer > 0) {
          const int64_t n = output.features();
          const Value part = options_.bidirectional ? Slice(x, reverse_twin ? n : 0, n) : x;
          output = output + part;
          last.push_back(InModel(Final(output.Previous())));
        } else {
          last.push_back(LastOf(result));
        }
        outputs.push_back(InModel(output));
      }
      x = Joined(outputs);
      result_.last = Joined(last);
    }
    result_.output = x;
    return std::move(result_);
  }

 private:
  void Check() const {
    TL_CHECK(options_.layers > 0, "[recurrent] got {} layers, wants > 0", options_.layers);
    TL_CHECK(options_.dropout == 0 || options_.layers > 1,
             "[recurrent] dropout {} acts between layers, but there is only one", options_.dropout);
    TL_CHECK(options_.directions.empty() ||
                 (!options_.bidirectional &&
                  static_cast<int64_t>(options_.directions.size()) == options_.layers),
             "[recurrent] got directions of {} layers for {} {} layers, wants one for each "
             "unidirectional layer",
             options_.directions.size(), options_.layers,
             options_.bidirectional ? "bidirectional" : "unidirectional");
    for (const double p : {options_.zoneout, options_.recurrent_dropout}) {
      TL_CHECK(p >= 0 && p <= 1, "[recurrent] a probability is {}, wants 0 to 1", p);
    }
  }

  std::vector<bool> Twins() const {
    return options_.bidirectional ? std::vector<bool>{false, true} : std::vector<bool>{false};
  }
  Direction DirectionOf(int64_t layer, bool reverse_twin) const {
    if (reverse_twin) return Direction::kReverse;
    return options_.directions.empty() ? Direction::kForward
                                       : options_.directions[static_cast<size_t>(layer)];
  }

  CellResult BuildCell(int64_t layer, bool reverse_twin, Builder& builder, const Value& x) {
    const std::string suffix = fmt::format("_l{}{}", layer, reverse_twin ? "_reverse" : "");
    CellPlace place;
    place.prefix = prefix_;
    place.suffix = suffix;
    place.zoneout = options_.zoneout;
    place.recurrent_dropout = static_cast<float>(options_.recurrent_dropout);
    place.initial = [&](const std::string& state, int64_t n) {
      return Initial(StateName(state, "_0", suffix), n);
    };
    CellOptions size = options_.size;
    size.input = x.features();
    TL_CHECK(layer > 0 || size.input == options_.size.input,
             "[recurrent] the input has {} features, the layer wants {}", size.input,
             options_.size.input);
    CellResult result = cell_.Build(&builder, x, size, place);
    model_.Note(result.parameters);
    for (const CellState& state : result.states) {
      result_.states.push_back({StateName(state.name, "_0", suffix),
                                StateName(state.name, "_n", suffix), InModel(state.final)});
    }
    return result;
  }

  std::string StateName(const std::string& state, const char* which,
                        const std::string& suffix) const {
    return prefix_ + state + which + suffix;
  }

  Value Initial(const std::string& name, int64_t n) {
    switch (options_.initial) {
      case InitialState::kZero:
        return {};
      case InitialState::kGiven:
        return model_.builder().Input(name, Domain::kBatch, {n});
      case InitialState::kLearned:
        return model_.Parameter(name, {n}, Initializer::Constant(0.0));
    }
    Fail("[recurrent] unknown kind {} of initial state", static_cast<int>(options_.initial));
  }

  // The newest value of the state that the cell puts out.
  Value LastOf(const CellResult& result) {
    for (const CellState& state : result.states) {
      if (state.carried.id() != result.output.id()) continue;
      const Value final = InModel(state.final);
      return state.delay == 1 ? final : Slice(final, (state.delay - 1) * state.size, state.size);
    }
    return InModel(Final(result.output.Previous()));
  }

  // Values point to the builder that made them; those of one direction do not outlive it.
  Value InModel(const Value& value) { return Value(&model_.builder(), value.edge()); }
  static Value Joined(const std::vector<Value>& parts) {
    return parts.size() == 1 ? parts[0] : Concat(parts);
  }

  Model& model_;
  std::string prefix_;
  const RecurrentOptions& options_;
  const Cell& cell_;
  RecurrentResult result_;
};

}  // namespace

RecurrentResult Recurrent(Model& model, const std::string& name, const Value& x,
                          const RecurrentOptions& options) {
  return Stack(model, name, options).Build(x);
}

void AddFinalStates(Model& model, const RecurrentResult& result) {
  for (const RecurrentState& state : result.states) {
    model.graph().AddOutput(state.output, state.final.id());
  }
}

}  // namespace turbolstm
