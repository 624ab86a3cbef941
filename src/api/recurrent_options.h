#pragma once

#include "nn/recurrent.h"
#include "turbolstm/recurrent.h"

namespace turbolstm {

// The public description of layers as that of src/nn.
RecurrentOptions OptionsOf(const RecurrentSpec& spec);

}  // namespace turbolstm
