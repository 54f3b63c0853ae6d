// at::Tensor over slots: making tensors, and getting at what is behind one.
#pragma once

#include <ATen/core/Tensor.h>

#include "aten/dtypes.h"
#include "hlo/view.h"
#include "runtime/device.h"
#include "runtime/value.h"

namespace tpu::aten {

// The memory of a device storage: context is a runtime::Slot, address is never dereferenced. Raises torch.OutOfMemoryError.
c10::DataPtr MakeSlot(runtime::Device& device, size_t size_bytes);

// An uninitialised tensor (no device memory until written).
at::Tensor EmptyStrided(runtime::Device& device, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                        c10::ScalarType dtype);
at::Tensor EmptyContiguous(runtime::Device& device, c10::IntArrayRef sizes, c10::ScalarType dtype);
// A new storage of the device's, without a Value; and a tensor over a storage, without sizes yet.
c10::Storage NewStorage(runtime::Device& device, size_t size_bytes);
at::Tensor TensorOver(c10::Storage storage, c10::ScalarType dtype);
// A tensor of `value`'s shape.
at::Tensor FromValue(runtime::ValuePtr value);

inline bool IsTpu(const at::Tensor& t) { return t.device().type() == c10::DeviceType::PrivateUse1; }
// The slot of a tpu tensor or storage. Raises where a storage is not ours.
runtime::Slot& SlotOf(const c10::StorageImpl& storage);
runtime::Slot& SlotOf(const at::Tensor& tensor);

// Swaps a new Value into the tensor's slot; undone at its end when a Capture is under way.
void Write(const at::Tensor& tensor, runtime::ValuePtr value);

// Sets the storage's size; contents up to the smaller of both sizes stay.
void ResizeStorage(c10::StorageImpl& storage, size_t size_bytes);
void GrowStorage(c10::StorageImpl& storage, size_t size_bytes);  // never shrinks

hlo::View ViewOf(const at::Tensor& tensor);
// Its element type and sizes, wherever it is; neither when it is undefined.
runtime::Type TypeOf(const at::Tensor& tensor);
// `value` with every tensor in it replaced by `f(tensor)`, undefined ones too; in a list, absent ones stay absent.
template <typename F>
c10::IValue MapTensors(const c10::IValue& value, F&& f) {
  if (value.isTensor()) return f(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : value.toTensorVector()) list.push_back(f(t));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& t : value.toOptionalTensorVector()) {
      list.push_back(t ? std::optional<at::Tensor>(f(*t)) : std::nullopt);
    }
    return list;
  }
  return value;
}
// Row-major from the storage's start, and the Value has exactly these sizes: reads and writes need no geometry.
bool IsWhole(const at::Tensor& tensor, const runtime::Value& value);

}  // namespace tpu::aten
