// What crosses between C++ and Python: exceptions, the interpreter's lock, signals.
#include <pybind11/pybind11.h>
#include <torch/csrc/Exceptions.h>
#include <unistd.h>

#include "python/bindings.h"
#include "runtime/device.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

// Lets other Python threads run while this one waits for a device; null where the lock is not ours to let go.
void* ReleaseLock() { return Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr; }

void TakeLock(void* state) {
  if (state != nullptr) PyEval_RestoreThread(static_cast<PyThreadState*>(state));
}

// Ctrl-C. Python handles signals on the main thread only.
void CheckSignals() {
  if (gettid() != getpid() || !Py_IsInitialized()) return;
  py::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

}  // namespace

void BindBoundary(py::module_& /*m*/) {
  runtime::SetWaitHooks({.poll = &CheckSignals, .release = &ReleaseLock, .reacquire = &TakeLock});
  // pybind11 alone would make every c10::Error a RuntimeError that quotes a C++ stack.
  py::register_local_exception_translator([](std::exception_ptr error) {
    if (!error) return;
    try {
      std::rethrow_exception(error);
    } catch (const c10::Error&) {
      torch::translate_exception_to_python(error);
    } catch (const python_error&) {
      torch::translate_exception_to_python(error);
    }
  });
}

}  // namespace tpu::python
