#include "spec.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <mutex>

#include "base/error.h"
#include "kernels/cell_kernels.h"

namespace nb = nanobind;

namespace turbolstm {

RecurrentSpec SpecOf(const nb::dict& options) {
  RecurrentSpec spec;
  for (const auto& [key, value] : options) {
    const auto name = nb::cast<std::string>(key);
    const auto take = [&](auto& field) {
      field = nb::cast<std::remove_reference_t<decltype(field)>>(value);
    };
    if (name == "cell") {
      take(spec.cell);
    } else if (name == "input_size") {
      take(spec.input);
    } else if (name == "hidden_size") {
      take(spec.hidden);
    } else if (name == "num_layers") {
      take(spec.layers);
    } else if (name == "bias") {
      take(spec.bias);
    } else if (name == "bidirectional") {
      take(spec.bidirectional);
    } else if (name == "proj_size") {
      take(spec.projection);
    } else if (name == "zoneout") {
      take(spec.zoneout);
    } else if (name == "clip") {
      take(spec.clip);
    } else if (name == "coupled_gates") {
      take(spec.coupled_gates);
    } else if (name == "heads") {
      take(spec.heads);
    } else if (name == "delay") {
      take(spec.delay);
    } else if (name == "residual") {
      take(spec.residual);
    } else if (name == "reversed") {
      take(spec.reversed);
    } else {
      Fail("[layers] there is no option '{}'", name);
    }
  }
  return spec;
}

void RegisterKernelsOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    RegisterCellKernels();
    RegisterDeviceCellKernels();
  });
}

}  // namespace turbolstm
