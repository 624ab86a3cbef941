#include <algorithm>
#include <deque>
#include <mutex>

#include "base/error.h"
#include "cells/families.h"

namespace turbolstm {

const std::vector<Cell>& AllCells() {
  static const std::vector<Cell> cells = {
      {"rnn_tanh", "plain recurrent network (Elman 1990), as torch.nn.RNN", cells::RnnTanh},
      {"rnn_relu", "plain recurrent network with relu, as torch.nn.RNN", cells::RnnRelu},
      {"lstm", "long short-term memory with forget gate (Gers et al. 2000), as torch.nn.LSTM",
       cells::Lstm},
      {"gru", "gated recurrent unit that resets after the product, as torch.nn.GRU", cells::Gru},
      {"gru_original", "gated recurrent unit that resets before the product (Cho et al. 2014)",
       cells::GruOriginal},
      {"lstm_projection", "LSTM whose output is projected (Sak et al. 2014), as torch.nn.LSTM",
       cells::LstmProjection, true},
      {"peephole_lstm", "LSTM whose gates see the cell (Gers et al. 2002)", cells::PeepholeLstm},
      {"layer_norm_lstm", "LSTM with layer normalisation (Ba et al. 2016)", cells::LayerNormLstm},
      {"mgu", "minimal gated unit (Zhou et al. 2016)", cells::Mgu},
      {"indrnn", "independent neurons: no product in the loop (Li et al. 2018)", cells::IndRnn},
      {"trnn", "strongly typed network: a scan (Balduzzi and Ghifary 2016)", cells::Trnn},
      {"tau_gru", "GRU with a second, delayed reading of the state (Erichson et al. 2022)",
       cells::TauGru},
      {"scrn", "slow context, a scan, that feeds a fast state (after Mikolov et al. 2015)",
       cells::Scrn},
      {"slstm", "LSTM with exponential gates and block-diagonal weights (Beck et al. 2024)",
       cells::Slstm},
  };
  return cells;
}

namespace {

// Cells of users, which stay where they are.
class UserCells {
 public:
  const Cell* Find(std::string_view name, std::vector<std::string>* names) const {
    const std::lock_guard lock(mutex_);
    for (const Entry& entry : entries_) {
      if (entry.name == name) return &entry.cell;
      names->push_back(entry.name);
    }
    return nullptr;
  }

  const Cell& Add(const std::string& name, const std::string& description,
                  std::function<Value(CellScope&)> equations, bool projects) {
    const std::lock_guard lock(mutex_);
    for (const Entry& entry : entries_) {
      TL_CHECK(entry.name != name, "[cell] there is a cell '{}' already", name);
    }
    Entry& entry = entries_.emplace_back(Entry{name, description, {}});
    entry.cell = {entry.name, entry.description, std::move(equations), projects};
    return entry.cell;
  }

 private:
  struct Entry {
    std::string name, description;
    Cell cell;
  };
  mutable std::mutex mutex_;
  std::deque<Entry> entries_;
};

UserCells& Users() {
  // Never destroyed: equations may belong to an interpreter that has ended by then.
  static auto* const cells = new UserCells;
  return *cells;
}

const Cell* FindBuiltIn(std::string_view name) {
  const auto found = std::ranges::find(AllCells(), name, &Cell::name);
  return found == AllCells().end() ? nullptr : &*found;
}

}  // namespace

const Cell& AddCell(const std::string& name, const std::string& description,
                    std::function<Value(CellScope&)> equations, bool projects) {
  TL_CHECK(!name.empty() && equations, "[cell] got a cell without {}, wants both",
           name.empty() ? "a name" : "equations");
  TL_CHECK(FindBuiltIn(name) == nullptr, "[cell] there is a cell '{}' already", name);
  return Users().Add(name, description, std::move(equations), projects);
}

const Cell& FindCell(std::string_view name) {
  if (const Cell* const cell = FindBuiltIn(name)) return *cell;
  std::vector<std::string> names;
  for (const Cell& cell : AllCells()) names.emplace_back(cell.name);
  if (const Cell* const cell = Users().Find(name, &names)) return *cell;
  Fail("[cell] there is no cell '{}'; there are {}", name, fmt::join(names, ", "));
}

}  // namespace turbolstm
