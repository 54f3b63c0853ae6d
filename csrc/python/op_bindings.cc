// Kernels seen from Python: decompositions, fallback counts, lowerings.
#include <pybind11/stl.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "aten/decomposition.h"
#include "aten/host_fallback.h"
#include "aten/meta.h"
#include "lowering/lowering.h"
#include "python/bindings.h"
#include "runtime/program.h"
#include "runtime/recorder.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

void ImportMetaRegistrations() {
  py::gil_scoped_acquire lock;
  py::module_::import("torch._meta_registrations");
}

// torchtpu._decompositions.find(name) gives the Python function for an op, or None.
bool Decompose(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  py::gil_scoped_acquire lock;
  // No static: a thread that holds the interpreter's lock must not wait for one that imports.
  const py::object find = py::module_::import("torchtpu._decompositions").attr("find");
  const py::object function = find(c10::toString(op.operator_name()));
  if (function.is_none()) return false;
  const c10::FunctionSchema& schema = op.schema();
  py::list args;
  py::dict kwargs;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    py::object value = torch::jit::toPyObject((*stack)[stack->size() - schema.arguments().size() + i]);
    if (argument.kwarg_only()) {
      kwargs[py::str(argument.name())] = value;
    } else {
      args.append(value);
    }
  }
  py::object result;
  try {
    result = function(*args, **kwargs);
  } catch (py::error_already_set& error) {
    // The caller knows what to do about this one, which Python's calls of ops have wrapped.
    if (error.matches(PyExc_NotImplementedError)) TORCH_CHECK_NOT_IMPLEMENTED(false, error.what());
    throw;
  }
  if (result.is(py::reinterpret_borrow<py::object>(Py_NotImplemented))) return false;
  torch::jit::drop(*stack, schema.arguments().size());
  const auto& returns = schema.returns();
  if (returns.size() == 1) {
    stack->push_back(torch::jit::toIValue(result, returns[0].type()));
  } else if (returns.size() > 1) {
    const auto parts = py::cast<py::sequence>(result);
    for (size_t i = 0; i < returns.size(); ++i) {
      const py::object part = parts[i];
      stack->push_back(part.is_none() ? c10::IValue(at::Tensor()) : torch::jit::toIValue(part, returns[i].type()));
    }
  }
  return true;
}

}  // namespace

void BindOps(py::module_& m) {
  aten::SetMetaImportHook(&ImportMetaRegistrations);
  aten::SetDecomposeHook(&Decompose);
  m.def("_fallback_counts", &aten::FallbackCounts);
  m.def("_reset_fallback_counts", &aten::ResetFallbackCounts);
  m.def("_lowerings", [] {
    std::vector<std::string> names;
    for (const lowering::Lowering* l : lowering::All()) names.push_back(l->name);
    std::sort(names.begin(), names.end());
    return names;
  });
  m.def("_record_programs", &runtime::Program::RecordTexts, py::arg("on"));
  m.def("_take_programs", [] {
    std::vector<std::pair<std::string, std::string>> programs;
    for (auto& text : runtime::Program::TakeTexts())
      programs.emplace_back(std::move(text.name), std::move(text.stablehlo));
    return programs;
  });
  m.def("_compile_count", &runtime::Program::CompileCount);
  m.def("_run_count", &runtime::RunCount);
}

}  // namespace tpu::python
