// Calls that PyTorch refuses, in PyTorch's own words.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "aten/call.h"

namespace tpu::aten {

// To be called when a call has failed: raises what PyTorch's CPU kernel says of arguments of the same geometry, and
// returns if it accepts them. (Meta kernels and decompositions written in Python check less, and word it otherwise.)
// Reads no data of the device; arguments of more than 64 MiB are not tried.
void RaiseAsOnHost(const c10::OperatorHandle& op, const Call& call);

}  // namespace tpu::aten
