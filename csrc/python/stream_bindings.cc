#include <pybind11/pybind11.h>
#include <torch/csrc/Event.h>

#include "aten/guard.h"
#include "python/bindings.h"
#include "runtime/stream.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

// torch.Event's own method refuses events of a subclass.
double ElapsedMs(py::handle start, py::handle end) {
  const auto event = [](py::handle object) -> const c10::Event& {
    if (!THPEvent_Check(object.ptr())) throw py::type_error("elapsed_time: expected a torch.Event");
    return reinterpret_cast<THPEvent*>(object.ptr())->event;
  };
  return event(start).elapsedTime(event(end));
}

}  // namespace

// Streams and events are torch.Stream's and torch.Event's, which reach the device guard; only ids are needed here.
void BindStream(py::module_& m) {
  m.attr("_DEFAULT_STREAM") = runtime::kDefaultStream;
  m.def("_current_stream", [](int64_t index) { return runtime::CurrentStream(aten::CheckedIndex(index)); });
  m.def("_elapsed_ms", &ElapsedMs);
  m.def("_stream_priority", &runtime::StreamPriority);
}

}  // namespace tpu::python
