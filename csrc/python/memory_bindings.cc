#include <ATen/core/CachingHostAllocator.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "aten/allocator.h"
#include "aten/errors.h"
#include "aten/guard.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

using aten::DeviceAt;

// Flat, by torch.cuda.memory_stats' names. What is not counted is left out.
py::dict DeviceStats(int64_t index) {
  const runtime::MemoryStats memory = DeviceAt(index).memory();
  py::dict stats;
  // No block is split or rounded, so what is requested, allocated and active is the same.
  for (const std::string name : {"allocated_bytes", "active_bytes", "requested_bytes"}) {
    stats[py::str(name + ".all.current")] = memory.allocated_bytes;
    stats[py::str(name + ".all.peak")] = memory.peak_bytes;
    stats[py::str(name + ".all.allocated")] = memory.total_allocated_bytes;
    stats[py::str(name + ".all.freed")] = memory.total_freed_bytes;
  }
  stats["allocation.all.allocated"] = memory.allocations;
  stats["allocation.all.freed"] = memory.frees;
  stats["reserved_bytes.all.current"] = memory.buffer_bytes;
  stats["reserved_bytes.all.peak"] = memory.peak_buffer_bytes;
  stats["inactive_split_bytes.all.current"] = 0;
  stats["num_alloc_retries"] = 0;
  stats["num_ooms"] = aten::OutOfMemoryCount();
  return stats;
}

py::dict HostStats() {
  const at::HostStats host = at::getHostAllocator(at::kPrivateUse1)->get_stats();
  py::dict stats;
  const auto add = [&](const std::string& name, const at::Stat& stat) {
    stats[py::str(name + ".current")] = stat.current;
    stats[py::str(name + ".peak")] = stat.peak;
    stats[py::str(name + ".allocated")] = stat.allocated;
    stats[py::str(name + ".freed")] = stat.freed;
  };
  add("active_requests", host.active_requests);
  add("active_bytes", host.active_bytes);
  add("allocations", host.allocations);
  add("allocated_bytes", host.allocated_bytes);
  stats["num_host_alloc"] = host.num_host_alloc;
  stats["num_host_free"] = host.num_host_free;
  return stats;
}

}  // namespace

void BindMemory(py::module_& m) {
  m.def("_memory_stats", &DeviceStats);
  m.def("_memory_info", [](int64_t index) { return aten::FreeAndTotalMemory(DeviceAt(index)); });
  m.def("_memory_limit", [](int64_t index) { return DeviceAt(index).memory().limit_bytes; });
  m.def("_set_memory_limit", [](int64_t index, int64_t size_bytes) { DeviceAt(index).SetLimit(size_bytes); });
  m.def("_reset_peak_memory_stats", [](int64_t index) { DeviceAt(index).ResetPeak(); });
  m.def("_reset_accumulated_memory_stats", [](int64_t index) { DeviceAt(index).ResetAccumulated(); });

  m.def("_host_memory_stats", &HostStats);
  m.def("_reset_peak_host_memory_stats", [] { at::getHostAllocator(at::kPrivateUse1)->reset_peak_stats(); });
  m.def("_reset_accumulated_host_memory_stats",
        [] { at::getHostAllocator(at::kPrivateUse1)->reset_accumulated_stats(); });
  m.def("_empty_host_cache", [] { at::getHostAllocator(at::kPrivateUse1)->empty_cache(); });
}

}  // namespace tpu::python
