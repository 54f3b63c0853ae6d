// Composite ops that the device takes whole.
//
// PyTorch takes linear apart into view, t, addmm and view: four calls and four nodes of the graph for one product. Some
// backends have a kernel for the whole, and autograd a formula for it (aten::linear_backward), which the dispatcher uses
// once a backend's kernel is there. But that formula hides the parts from whoever must see them: dispatch modes, tensor
// subclasses, functorch's transforms, forward-mode differentiation. So the choice is made at each call.
#pragma once

#include <torch/library.h>

namespace tpu::aten {

// Whether `op` is composite and autograd knows the derivative of the whole.
bool CanBeWhole(const c10::OperatorHandle& op);

// Registers `kernel` as the device's for the composite `op`, and at its autograd key the choice between the whole and the
// parts.
void RegisterWhole(torch::Library& device, torch::Library& autograd, const c10::OperatorHandle& op,
                   torch::CppFunction kernel);

// Whether nothing looks inside a call with these dispatch keys and arguments.
bool IsOpaque(c10::DispatchKeySet keys, c10::ArrayRef<c10::IValue> arguments);

}  // namespace tpu::aten
