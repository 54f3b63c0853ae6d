// Ahead-of-time compilation for TPU topologies that this machine does not have.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <mutex>

#include "aten/errors.h"
#include "aten/trace.h"
#include "pjrt/discovery.h"
#include "pjrt/topology.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace tpu::python {
namespace {

py::dict CompileFor(const std::string& text, const std::string& topology_name, const std::string& plugin_path) {
  std::unique_ptr<pjrt::Executable> executable;
  std::string platform, hlo;
  pjrt::Attributes cost;
  pjrt::CompiledMemoryStats memory;
  {
    py::gil_scoped_release release;
    static std::mutex mutex;  // PrepareTpuEnvironment sets variables
    std::lock_guard lock(mutex);
    pjrt::PrepareTpuEnvironment();
    auto plugin = aten::ValueOrRaise(pjrt::Plugin::Load(plugin_path));
    auto topology = aten::ValueOrRaise(pjrt::Topology::Create(plugin, topology_name, {}));
    executable = aten::ValueOrRaise(topology->Compile(text, pjrt::CompileOptions()));
    platform = topology->platform_version();
    hlo = aten::ValueOrRaise(executable->OptimizedHlo());
    cost = aten::ValueOrRaise(executable->CostAnalysis());
    memory = aten::ValueOrRaise(executable->MemoryStats());
  }
  py::dict result, memory_bytes;
  memory_bytes["generated_code"] = memory.generated_code_bytes;
  memory_bytes["argument"] = memory.argument_bytes;
  memory_bytes["output"] = memory.output_bytes;
  memory_bytes["temp"] = memory.temp_bytes;
  memory_bytes["alias"] = memory.alias_bytes;
  memory_bytes["peak"] = memory.peak_bytes;
  result["platform"] = platform;
  result["cost"] = cost;
  result["memory"] = memory_bytes;
  result["hlo"] = hlo;
  return result;
}

}  // namespace

void BindAot(py::module_& m) {
  m.def("_trace", [](const std::vector<at::Tensor>& arguments, const py::function& fn) {
    return aten::Trace(arguments, [&] { return py::cast<std::vector<at::Tensor>>(fn()); });
  });
  m.def(
      "_trace_dynamic",
      [](const py::function& at, const std::vector<std::tuple<size_t, int64_t, int64_t>>& symbols,
         const std::vector<int64_t>& low, const std::vector<int64_t>& high) {
        std::vector<hlo::SymbolSource> sources;
        for (const auto& [parameter, dim, offset] : symbols) sources.push_back({parameter, dim, offset});
        const auto function_at = [&](const std::vector<int64_t>& point) {
          const auto made = at(point).cast<std::pair<std::vector<at::Tensor>, py::function>>();
          return std::pair(
              made.first, aten::TracedFunction([fn = made.second] { return py::cast<std::vector<at::Tensor>>(fn()); }));
        };
        aten::DynamicTrace made = aten::TraceDynamic(function_at, sources, low, high);
        return std::pair(std::move(made.text), std::move(made.low));
      },
      py::arg("at"), py::arg("symbols"), py::arg("low"), py::arg("high"));
  m.def("_compile_for", &CompileFor, py::arg("text"), py::arg("topology"), py::arg("plugin"));
}

}  // namespace tpu::python
