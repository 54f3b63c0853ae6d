#include <pybind11/chrono.h>
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "distributed/process_group.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

using distributed::Clock;
using distributed::Group;
using distributed::ProcessGroup;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

// Calls the Python function that connects the processes of a group, from whatever thread.
ProcessGroup::Connect ConnectBy(py::function function) {
  auto shared = std::shared_ptr<py::function>(new py::function(std::move(function)), [](py::function* held) {
    py::gil_scoped_acquire lock;
    delete held;
  });
  return [shared](const StorePtr& store, int rank, int size, std::chrono::milliseconds timeout) {
    py::gil_scoped_acquire lock;
    return (*shared)(store, rank, size, timeout).cast<BackendPtr>();
  };
}

c10::intrusive_ptr<ProcessGroup> Create(const StorePtr& store, int rank, int size,
                                        const c10::intrusive_ptr<ProcessGroup::Options>& options,
                                        const py::function& connect) {
  ProcessGroup::Connect connect_by = ConnectBy(connect);
  py::gil_scoped_release release;
  return c10::make_intrusive<ProcessGroup>(store, rank, size, options, std::move(connect_by));
}

}  // namespace

// The class wants torch.distributed's own, so it is made when that has been imported.
void BindDistributed(py::module_& m) {
  m.def("_bind_process_group", [m]() mutable {
    if (py::hasattr(m, "_ProcessGroup")) return;
    using Options = ProcessGroup::Options;
    py::class_<Options, c10d::Backend::Options, c10::intrusive_ptr<Options>>(m, "_ProcessGroupOptions")
        .def(py::init([](std::chrono::milliseconds timeout) { return c10::make_intrusive<Options>(timeout); }),
             py::arg("timeout"))
        .def_readwrite("version", &Options::version)
        .def("__copy__", [](const Options& self) { return c10::make_intrusive<Options>(self); })
        .def("__deepcopy__", [](const Options& self, const py::dict&) { return c10::make_intrusive<Options>(self); });
    py::class_<ProcessGroup, c10d::Backend, c10::intrusive_ptr<ProcessGroup>>(m, "_ProcessGroup")
        .def(py::init(&Create), py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("options"),
             py::arg("connect"))
        .def("perform_nocolor_split", [](const ProcessGroup&, const py::object&) {})
        .def_property_readonly("options", [](ProcessGroup& self) {
          return c10::static_intrusive_pointer_cast<Options>(self.getBackendOptions());
        });
  });
  m.def(
      "_shutdown_groups",
      [](double seconds) {
        const auto deadline =
            Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
        Group::ShutdownAll(deadline);
        distributed::CallbackThreads::Stop(deadline);
      },
      py::call_guard<py::gil_scoped_release>());
}

}  // namespace tpu::python
