// Models to and from ONNX. What people call is python/turbolstm/onnx.py.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>

#include "api/recurrent_options.h"
#include "arrays.h"
#include "base/error.h"
#include "bind.h"
#include "exchange/onnx_export.h"
#include "exchange/onnx_import.h"
#include "exchange/run_export.h"
#include "io/atomic_file.h"
#include "spec.h"
#include "text.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace turbolstm {
namespace {

using Input = nb::ndarray<nb::ro>;

nb::dict OptionsDict(const RecurrentSpec& spec) {
  nb::dict options;
  options["cell"] = spec.cell;
  options["input_size"] = spec.input;
  options["hidden_size"] = spec.hidden;
  options["bias"] = spec.bias;
  options["bidirectional"] = spec.bidirectional;
  options["clip"] = spec.clip;
  options["coupled_gates"] = spec.coupled_gates;
  options["reversed"] = spec.reversed;
  return options;
}

void ExportPythonLayers(const nb::dict& options, const std::map<std::string, Input>& arrays,
                        bool batch_first, const std::filesystem::path& path) {
  constexpr std::string_view kLayers = "layers";
  const ParameterValues values = [&](const std::string& name) -> std::span<const float> {
    const std::string plain = name.substr(kLayers.size() + 1);
    const auto found = arrays.find(plain);
    TL_CHECK(found != arrays.end(), "[onnx] the parameter '{}' is missing", plain);
    return Elements<const float>(plain, found->second);
  };
  const std::string bytes =
      OnnxOfLayers(OptionsOf(SpecOf(options)), std::string(kLayers), batch_first, values);
  AtomicFile file(path);
  file.Write(bytes);
  file.Commit();
}

nb::object ArrayOf(const ImportedParameter& parameter) {
  auto* data = new std::vector<float>(parameter.values);
  const nb::capsule owner(data,
                          [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
  const std::vector<size_t> shape(parameter.shape.begin(), parameter.shape.end());
  return nb::cast(nb::ndarray<nb::numpy, float>(data->data(), shape.size(), shape.data(), owner));
}

nb::list ImportPythonLayers(const std::filesystem::path& path) {
  nb::list layers;
  for (const ImportedLayer& layer : ImportOnnxLayers(path)) {
    nb::dict parameters;
    for (const auto& [name, parameter] : layer.parameters) {
      parameters[name.c_str()] = ArrayOf(parameter);
    }
    layers.append(
        nb::make_tuple(TextOf(layer.name), OptionsDict(layer.spec), layer.batch_first, parameters));
  }
  return layers;
}

}  // namespace

void BindExchange(nb::module_& module) {
  module.def("export_layers_to_onnx", &ExportPythonLayers, "options"_a, "parameters"_a,
             "batch_first"_a, "path"_a, "Writes an ONNX model; turbolstm.onnx.export calls this.");
  module.def(
      "import_onnx_layers", &ImportPythonLayers, "path"_a,
      "(name, options, batch_first, parameters) of each recurrent node; turbolstm.onnx.load\n"
      "calls this.");
  module.def("export_run_to_onnx", &ExportRunToOnnx, "run"_a, "path"_a,
             nb::call_guard<nb::gil_scoped_release>(),
             "Writes a trained classifier; turbolstm.onnx.export calls this.");
}

}  // namespace turbolstm
