#pragma once

#include <nanobind/nanobind.h>

// One function for each bind_<area>.cpp.
namespace turbolstm {

void BindDevices(nanobind::module_& module);
void BindExchange(nanobind::module_& module);
void BindEquations(nanobind::module_& module);
void BindPlan(nanobind::module_& module);
void BindTrain(nanobind::module_& module);
void BindWeights(nanobind::module_& module);
void BindRecurrent(nanobind::module_& module);
void BindDeviceNetwork(nanobind::module_& module);

}  // namespace turbolstm
