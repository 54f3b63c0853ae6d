// Explain seen from Python: the user's lines, and the records.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <vector>

#include "base/phase.h"
#include "python/bindings.h"
#include "runtime/explain.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

using runtime::Explain;

// Folders whose code is not the user's; set once at import.
std::vector<std::string>& LibraryFolders() {
  static auto& folders = *new std::vector<std::string>;
  return folders;
}

bool IsLibrary(const std::string& file) {
  if (file.starts_with('<')) return true;
  for (const std::string& folder : LibraryFolders()) {
    if (file.starts_with(folder)) return true;
  }
  return false;
}

// The innermost line of the user's on this thread's stack: "train.py:12".
std::string UserLine() {
  if (!Py_IsInitialized()) return "";
  py::gil_scoped_acquire lock;
  auto frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    auto code = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(raw)));
    std::string file = py::str(code.attr("co_filename"));
    if (!IsLibrary(file)) return file + ":" + std::to_string(PyFrame_GetLineNumber(raw));
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
  return "";
}

py::dict ToDict(const runtime::FlushRecord& record) {
  py::dict d;
  d["reason"] = runtime::Name(record.reason);
  d["line"] = Explain::LineText(record.line);
  d["first_line"] = Explain::LineText(record.first_line);
  d["ops"] = record.ops;
  d["how"] = record.how;
  d["program"] = record.program;
  d["first_op"] = record.first_op;
  d["last_op"] = record.last_op;
  d["host_us"] = record.host_us;
  d["wait_us"] = record.wait_us;
  return d;
}

py::dict ToDict(const runtime::CompileRecord& record) {
  py::dict d;
  d["name"] = record.name;
  d["line"] = Explain::LineText(record.line);
  d["ops"] = record.ops;
  d["inputs"] = record.inputs;
  d["results"] = record.results;
  d["program"] = record.program;
  return d;
}

}  // namespace

void BindExplain(py::module_& m) {
  Explain::SetLineHook(&UserLine);
  m.def("_explain", &Explain::Enable, py::arg("on"));
  m.def(
      "_set_library_folders", [](std::vector<std::string> folders) { LibraryFolders() = std::move(folders); },
      py::arg("folders"));
  m.def("_take_flushes", [] {
    py::list list;
    for (const auto& record : Explain::TakeFlushes()) list.append(ToDict(record));
    return list;
  });
  m.def("_phase_seconds", [] {
    py::dict seconds;
    for (size_t i = 0; i < kPhaseNames.size(); ++i) {
      seconds[kPhaseNames[i]] = PhaseTimer::Seconds(static_cast<Phase>(i));
    }
    return seconds;
  });
  m.def("_take_compiles", [] {
    py::list list;
    for (const auto& record : Explain::TakeCompiles()) list.append(ToDict(record));
    return list;
  });
}

}  // namespace tpu::python
