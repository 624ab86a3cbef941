#include "turbolstm/version.h"

namespace turbolstm {

std::string Version() {
  return TL_VERSION;
}

}  // namespace turbolstm
