#include <pybind11/pybind11.h>

#include "aten/guard.h"
#include "python/bindings.h"
#include "runtime/stream.h"

namespace py = pybind11;

namespace tpu::python {

// Streams and events are torch.Stream's and torch.Event's, which reach the device guard; only ids are needed here.
void BindStream(py::module_& m) {
  m.attr("_DEFAULT_STREAM") = runtime::kDefaultStream;
  m.def("_current_stream", [](int64_t index) { return runtime::CurrentStream(aten::CheckedIndex(index)); });
  m.def("_stream_priority", &runtime::StreamPriority);
}

}  // namespace tpu::python
