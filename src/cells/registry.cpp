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

const Cell& FindCell(std::string_view name) {
  std::vector<std::string_view> names;
  for (const Cell& cell : AllCells()) {
    if (cell.name == name) return cell;
    names.push_back(cell.name);
  }
  Fail("[cell] there is no cell '{}'; there are {}", name, fmt::join(names, ", "));
}

}  // namespace turbolstm
