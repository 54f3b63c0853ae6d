// Compiled graphs seen from Python.
#include <pybind11/stl.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include "aten/compiled_graph.h"
#include "aten/loop.h"
#include "python/bindings.h"
#include "runtime/padding.h"
#include "runtime/recorder.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

using aten::CompiledGraph;
using Values = CompiledGraph::Values;

c10::IValue ToValue(PyObject* object) {
  if (THPVariable_Check(object)) return THPVariable_Unpack(object);
  if (object == Py_None) return {};
  if (PyBool_Check(object)) return object == Py_True;
  if (PyLong_Check(object)) return static_cast<int64_t>(PyLong_AsLongLong(object));
  if (PyFloat_Check(object)) return PyFloat_AS_DOUBLE(object);
  if (THPGenerator_Check(object)) return reinterpret_cast<THPGenerator*>(object)->cdata;
  TORCH_CHECK_NOT_IMPLEMENTED(false, "a compiled graph: expected tensors and numbers, found a ",
                              Py_TYPE(object)->tp_name);
}

py::object ToPython(const c10::IValue& value) {
  if (value.isTensor()) {
    return value.toTensor().defined() ? py::reinterpret_steal<py::object>(THPVariable_Wrap(value.toTensor()))
                                      : py::none();
  }
  if (value.isGenerator()) return py::reinterpret_steal<py::object>(THPGenerator_Wrap(value.toGenerator()));
  if (value.isInt()) return py::int_(value.toInt());
  if (value.isBool()) return py::bool_(value.toBool());
  if (value.isDouble()) return py::float_(value.toDouble());
  return py::none();
}

py::list ToList(const Values& values) {
  py::list list(values.size());
  for (size_t i = 0; i < values.size(); ++i) list[i] = ToPython(values[i]);
  return list;
}

std::unique_ptr<CompiledGraph> Make(std::string name, int device, const std::string& stand_ins,
                                    std::vector<bool> host_results, py::function function) {
  return std::make_unique<CompiledGraph>(
      std::move(name), static_cast<c10::DeviceIndex>(device),
      stand_ins == "arguments" ? CompiledGraph::StandIns::kArguments : CompiledGraph::StandIns::kPlaceholders,
      std::move(host_results), [function = std::move(function)](Values arguments) {
        const py::sequence results = function(ToList(arguments));
        Values values;
        for (const py::handle result : results) values.push_back(ToValue(result.ptr()));
        return values;
      });
}

// `arguments` is emptied, so that what only it refers to can be freed, or overwritten by the program.
py::list Call(CompiledGraph& graph, py::list arguments) {
  Values values;
  values.reserve(arguments.size());
  for (const py::handle argument : arguments) values.push_back(ToValue(argument.ptr()));
  const Values results = graph.Run(values);
  if (PyList_SetSlice(arguments.ptr(), 0, PyList_GET_SIZE(arguments.ptr()), nullptr) != 0)
    throw py::error_already_set();
  return ToList(results);
}

// `described(point)`: for each argument None, a number, or (sizes, strides). None when the exact program is needed.
py::object CallBucketed(CompiledGraph& graph, py::list arguments, std::vector<bool> symbolic, py::function described,
                        const std::vector<int64_t>& symbols, const std::vector<int64_t>& low,
                        const std::vector<int64_t>& high) {
  Values values;
  for (const py::handle argument : arguments) values.push_back(ToValue(argument.ptr()));
  const CompiledGraph::Symbolic which{std::move(symbolic), [&](const std::vector<int64_t>& point) {
                                        std::vector<CompiledGraph::ArgumentAt> all;
                                        for (const py::handle at : described(point)) {
                                          CompiledGraph::ArgumentAt& one = all.emplace_back();
                                          if (py::isinstance<py::int_>(at)) one.number = at.cast<int64_t>();
                                          if (!py::isinstance<py::tuple>(at)) continue;
                                          const auto geometry = at.cast<py::tuple>();
                                          one.sizes = geometry[0].cast<std::vector<int64_t>>();
                                          one.strides = geometry[1].cast<std::vector<int64_t>>();
                                        }
                                        return all;
                                      }};
  const std::optional<Values> results = graph.RunBucketed(values, which, symbols, low, high);
  if (!results) return py::none();
  if (PyList_SetSlice(arguments.ptr(), 0, PyList_GET_SIZE(arguments.ptr()), nullptr) != 0)
    throw py::error_already_set();
  return ToList(*results);
}

aten::LoopFunction ToLoopFunction(py::function function) {
  return [function = std::move(function)](const std::vector<at::Tensor>& arguments) {
    return py::cast<std::vector<at::Tensor>>(function(*py::cast(arguments)));
  };
}

}  // namespace

void BindCompile(py::module_& m) {
  py::class_<CompiledGraph>(m, "_CompiledGraph")
      .def(py::init(&Make), py::arg("name"), py::arg("device"), py::arg("stand_ins"), py::arg("host_results"),
           py::arg("function"))
      .def("__call__", &Call)
      .def("in_bucket", &CallBucketed, py::arg("arguments"), py::arg("symbolic"), py::arg("described"),
           py::arg("symbols"), py::arg("low"), py::arg("high"))
      .def_property_readonly("captures", &CompiledGraph::captures);
  m.def(
      "_set_padding_byte", [](int byte) { runtime::SetPaddingByte(static_cast<char>(byte)); }, py::arg("byte"));
  m.def(
      "_while_loop",
      [](py::function condition, py::function body, const std::vector<at::Tensor>& carried,
         const std::vector<at::Tensor>& others) {
        return aten::RecordWhile(ToLoopFunction(std::move(condition)), ToLoopFunction(std::move(body)), carried,
                                 others);
      },
      py::arg("condition"), py::arg("body"), py::arg("carried"), py::arg("others"));
  m.def(
      "_scan",
      [](py::function body, const std::vector<at::Tensor>& carried, const std::vector<at::Tensor>& slices,
         const std::vector<at::Tensor>& others) {
        return aten::RecordScan(ToLoopFunction(std::move(body)), carried, slices, others);
      },
      py::arg("body"), py::arg("carried"), py::arg("slices"), py::arg("others"));
  m.def(
      "_set_line",
      [](std::string line) {
        if (runtime::Capture* capture = runtime::Capture::Current()) capture->line = std::move(line);
      },
      py::arg("line"));
  m.def("_draw_from", &CompiledGraph::DrawFrom, py::arg("generator"));
}

}  // namespace tpu::python
