#include <pybind11/pybind11.h>

#include <string>

#include "python/bindings.h"
#include "runtime/recorder.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

using runtime::Mode;

Mode ToMode(const std::string& name) {
  if (name == "strict") return Mode::kStrict;
  if (name == "debug") return Mode::kDebug;
  throw py::value_error("mode: expected 'strict' or 'debug', found '" + name + "'");
}

}  // namespace

void BindMode(py::module_& m) {
  m.def("_set_mode", [](const std::string& name) { runtime::SetDefaultMode(ToMode(name)); });
  m.def("_mode", [] { return runtime::CurrentMode() == Mode::kDebug ? "debug" : "strict"; });
}

}  // namespace tpu::python
