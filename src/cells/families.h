#pragma once

#include "cells/cell.h"

// The equations of every cell. Letters: [t-1] is written Past (as carried) or Recurrent (where it
// enters a matrix product); rows of packed weights stand in the order in which Split takes them.
namespace turbolstm::cells {

Value RnnTanh(CellScope& cell);
Value RnnRelu(CellScope& cell);
Value IndRnn(CellScope& cell);
Value Trnn(CellScope& cell);
Value Scrn(CellScope& cell);

Value Lstm(CellScope& cell);
Value LstmProjection(CellScope& cell);
Value PeepholeLstm(CellScope& cell);
Value LayerNormLstm(CellScope& cell);
Value Slstm(CellScope& cell);

Value Gru(CellScope& cell);
Value GruOriginal(CellScope& cell);
Value Mgu(CellScope& cell);
Value TauGru(CellScope& cell);

}  // namespace turbolstm::cells
