#include <pthread.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Generator.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include "aten/allocator.h"
#include "aten/errors.h"
#include "aten/generator.h"
#include "aten/guard.h"
#include "python/bindings.h"
#include "runtime/platform.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

using aten::DeviceAt;
using runtime::Platform;

void Init() {
  aten::ValueOrRaise(Platform::Get());
  // From here on a fork leaves the child without the client's threads.
  torch::utils::register_fork_handler_for_device_init(at::kPrivateUse1);
}

py::dict Properties(int64_t index) {
  const runtime::Device& device = DeviceAt(index);
  const pjrt::Device& d = device.pjrt_device();
  py::dict properties;
  properties["index"] = device.index();
  properties["name"] = d.kind();
  properties["platform"] = device.client().platform_name();
  properties["platform_version"] = device.client().platform_version();
  properties["total_memory"] = aten::TotalMemory(device);
  properties["id"] = d.id();
  properties["process_index"] = d.description().process_index();
  properties["local_hardware_id"] = d.local_hardware_id();
  properties["attributes"] = d.attributes();
  return properties;
}

}  // namespace

void BindDevice(py::module_& m) {
  m.def(
      "_configure",
      [](std::string setting, std::string cpu_plugin, std::string libtpu, int cpu_devices) {
        Platform::Configure({std::move(setting), std::move(cpu_plugin), std::move(libtpu), cpu_devices});
      },
      py::arg("setting"), py::arg("cpu_plugin"), py::arg("libtpu"), py::arg("cpu_devices"));
  m.def("_init", &Init, py::call_guard<py::gil_scoped_release>());
  m.def("_is_initialized", [] { return Platform::Opened() != nullptr && !Platform::InForkedChild(); });
  m.def("_is_in_bad_fork", &Platform::InForkedChild);
  m.def("_is_available", &Platform::Available, py::call_guard<py::gil_scoped_release>());
  m.def("_device_count", &Platform::DeviceCount, py::call_guard<py::gil_scoped_release>());
  m.def("_platform", [] { return aten::ValueOrRaise(Platform::Get())->description(); });

  m.def("_current_device", [] { return int{aten::CurrentDevice()}; });
  m.def("_set_device", &aten::SetCurrentDevice);
  m.def("_exchange_device", [](int64_t index) {
    const c10::DeviceIndex previous = aten::CurrentDevice();
    aten::SetCurrentDevice(index);
    return int{previous};
  });
  m.def("_synchronize", [](int64_t index) {
    const c10::DeviceIndex checked = aten::CheckedIndex(index);
    if (Platform::Opened() != nullptr) aten::Synchronize(DeviceAt(checked));
  });
  m.def("_device_properties", &Properties);

  m.def("_default_generator", [](int64_t index) {
    return py::reinterpret_steal<py::object>(THPGenerator_Wrap(aten::DefaultGenerator(aten::CheckedIndex(index))));
  });
  m.def("_seed_all", &aten::SeedDefaultGenerators);

  pthread_atfork(nullptr, nullptr, &Platform::MarkForked);
  // What is queued still runs, and the submission threads end before the interpreter does.
  py::module_::import("atexit").attr("register")(
      py::cpp_function(&Platform::Shutdown, py::call_guard<py::gil_scoped_release>()));
}

}  // namespace tpu::python
