#include <pybind11/pybind11.h>

#include <string>

#include "python/bindings.h"
#include "runtime/recorder.h"
#include "runtime/window.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

using runtime::Mode;

Mode ToMode(const std::string& name) {
  if (name == "strict") return Mode::kStrict;
  if (name == "debug") return Mode::kDebug;
  if (name == "fuse") return Mode::kFuse;
  throw py::value_error("mode: expected 'strict', 'debug' or 'fuse', found '" + name + "'");
}

const char* Name(Mode mode) {
  switch (mode) {
    case Mode::kStrict: return "strict";
    case Mode::kDebug: return "debug";
    case Mode::kFuse: return "fuse";
  }
  return "";
}

}  // namespace

void BindMode(py::module_& m) {
  m.def("_set_mode", [](const std::string& name) { runtime::SetDefaultMode(ToMode(name)); });
  m.def("_mode", [] { return Name(runtime::CurrentMode()); });
  m.def(
      "_set_fuse_options",
      [](bool wait, int64_t idle_ms) {
        runtime::SetFuseOptions({wait ? runtime::CompilePolicy::kWait : runtime::CompilePolicy::kBackground,
                                 std::chrono::milliseconds(idle_ms)});
      },
      py::arg("wait"), py::arg("idle_ms"));
}

}  // namespace tpu::python
