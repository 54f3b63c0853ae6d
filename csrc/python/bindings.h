// What each file of csrc/python adds to the extension module torchtpu._C.
#pragma once

#include <pybind11/pybind11.h>

namespace tpu::python {

void BindBoundary(pybind11::module_& m);     // exceptions, the interpreter's lock, signals; first
void BindCache(pybind11::module_& m);        // the compile cache
void BindDevice(pybind11::module_& m);       // platform, devices, generators, forks
void BindMemory(pybind11::module_& m);       // statistics and limits
void BindStream(pybind11::module_& m);       // current streams
void BindExplain(pybind11::module_& m);      // what was flushed and compiled
void BindMode(pybind11::module_& m);         // strict, debug
void BindOps(pybind11::module_& m);          // decompositions, fallbacks, counters
void BindAot(pybind11::module_& m);          // tracing, ahead-of-time compilation
void BindCompile(pybind11::module_& m);      // compiled graphs
void BindDistributed(pybind11::module_& m);  // the process group

}  // namespace tpu::python
