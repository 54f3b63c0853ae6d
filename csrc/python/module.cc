// The extension module torchtpu._C.
#include "python/bindings.h"

namespace tpu::aten {
void RegisterKernels();
}

PYBIND11_MODULE(_C, m) {
  m.doc() = "The C++ core of TorchTPU. Everything a user needs is in torchtpu and torch.tpu.";
  tpu::python::BindBoundary(m);
  tpu::python::BindCache(m);  // before devices: at exit, the other way round
  tpu::python::BindDevice(m);
  tpu::python::BindMemory(m);
  tpu::python::BindStream(m);
  tpu::python::BindExplain(m);
  tpu::python::BindMode(m);
  tpu::python::BindOps(m);
  tpu::python::BindAot(m);
  tpu::python::BindCompile(m);
  tpu::python::BindDistributed(m);
  tpu::aten::RegisterKernels();
}
