#include "aten/copy.h"

#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/is_set_to.h>
#include <torch/library.h>

#include "aten/errors.h"
#include "aten/guard.h"
#include "aten/kernel.h"
#include "aten/tensor.h"
#include "runtime/padding.h"
#include "runtime/recorder.h"
#include "runtime/stream.h"

namespace tpu::aten {
namespace {

using torch::jit::Stack;

// Up to this size the bytes travel with the Value and are copied by the submission thread.
constexpr size_t kInlineBytes = 1024;

// The generic kernel of copy_: cast, broadcast and write through views, on one device.
void CopyOnDevice(at::Tensor& self, const at::Tensor& source) {
  Stack stack{self, source, false};
  CallKernel("aten::copy_", "", &stack);
}

void CopyFromHost(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  at::Tensor host = source.resolve_conj().resolve_neg();
  // Fewer bytes cross; narrowing there or here gives the same value.
  if (host.scalar_type() != self.scalar_type()) host = host.to(self.scalar_type());
  host = host.contiguous();
  runtime::Slot& slot = SlotOf(self);
  runtime::ValuePtr value = Upload(slot.device(), host, non_blocking && source.is_same(host));
  const bool whole = self.is_contiguous() && self.storage_offset() == 0 && self.nbytes() == slot.size_bytes() &&
                     !self.is_conj() && !self.is_neg() && host.sizes() == self.sizes();
  if (whole) return Write(self, std::move(value));
  CopyOnDevice(self, FromValue(std::move(value)));
}

// What is there padded only is read whole and cut on the host: no program for its size.
std::optional<at::Tensor> ReadPadded(const at::Tensor& source) {
  const runtime::Slot& slot = SlotOf(source);
  const auto padded = slot.padded();
  if (!padded || slot.Peek() || padded->type->dtype != ToDType(source.scalar_type())) return std::nullopt;
  at::Tensor storage =
      at::empty({static_cast<int64_t>(slot.size_bytes() / source.itemsize())}, at::TensorOptions(source.dtype()));
  RaiseIfError(runtime::ReadToHost(*padded, storage.mutable_data_ptr(), storage.nbytes()));
  at::Tensor view = storage.as_strided(source.sizes(), source.strides(), source.storage_offset());
  view._set_conj(source.is_conj());
  view._set_neg(source.is_neg());
  return view;
}

void CopyToHost(at::Tensor& self, const at::Tensor& source) {
  if (const std::optional<at::Tensor> host = ReadPadded(source)) {
    self.copy_(*host);
    return;
  }
  const at::Tensor dense = Dense(source);
  const runtime::ValuePtr value = SlotOf(dense).Get();
  const bool direct = self.is_contiguous() && self.scalar_type() == source.scalar_type() &&
                      self.sizes() == source.sizes() && !self.is_conj() && !self.is_neg();
  at::Tensor target = direct ? self : at::empty(source.sizes(), self.options().dtype(source.scalar_type()));
  RaiseIfError(runtime::ReadToHost(*value, target.mutable_data_ptr(), target.nbytes()));
  if (!direct) self.copy_(target);
}

void CopyAcrossDevices(at::Tensor& self, const at::Tensor& source) {
  const at::Tensor dense = Dense(source);
  const runtime::ValuePtr from = SlotOf(dense).Get();
  runtime::Await(*from, runtime::FlushReason::kCopy);
  if (!from->buffer()) Raise(*from->error());
  runtime::Device& device = SlotOf(self).device();
  pjrt::Buffer buffer = ValueOrRaise(from->buffer()->CopyToDevice(device.pjrt_device()));
  CopyOnDevice(self, FromValue(c10::make_intrusive<runtime::Value>(device, from->type_ptr(), std::move(buffer))));
}

at::Tensor& Copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  if (self.is_same(source)) return self;
  if (IsTpu(self) && IsTpu(source)) {
    // `x[i] += 1` ends so.
    const bool same_bits = self.is_conj() == source.is_conj() && self.is_neg() == source.is_neg();
    if (same_bits && self.scalar_type() == source.scalar_type() && self.is_set_to(source)) return self;
    if (&SlotOf(self).device() == &SlotOf(source).device()) {
      CopyOnDevice(self, source);
    } else {
      CopyAcrossDevices(self, source);
    }
    return self;
  }
  const at::Tensor expanded = source.sizes() == self.sizes() ? source : source.expand(self.sizes());
  if (IsTpu(self)) {
    TORCH_CHECK(source.device().is_cpu(), "copy_: expected a tensor on cpu or tpu, found one on ", source.device());
    CopyFromHost(self, expanded, non_blocking);
  } else {
    TORCH_CHECK(self.device().is_cpu(), "copy_: expected a destination on cpu or tpu, found one on ", self.device());
    CopyToHost(self, expanded);
  }
  return self;
}

at::Tensor CopyFrom(const at::Tensor& self, const at::Tensor& destination, bool non_blocking) {
  at::Tensor target = destination;
  return Copy_(target, self, non_blocking);
}

at::Tensor CopyFromAndResize(const at::Tensor& self, const at::Tensor& destination) {
  if (self.sizes() != destination.sizes()) destination.resize_(self.sizes());
  return CopyFrom(self, destination, false);
}

at::Scalar LocalScalarDense(const at::Tensor& self) {
  TORCH_CHECK(self.numel() > 0, "_local_scalar_dense: Empty tensor not supported");
  if (const std::optional<at::Tensor> read = ReadPadded(self)) return at::_local_scalar_dense(*read);
  at::Tensor host = at::empty({}, at::TensorOptions().dtype(self.scalar_type()));
  const at::Tensor dense = Dense(self);
  const runtime::ValuePtr value = SlotOf(dense).Get();
  RaiseIfError(runtime::ReadToHost(*value, host.mutable_data_ptr(), host.nbytes()));
  return at::_local_scalar_dense(host);
}

// On one device a cast is one program; across devices it is PyTorch's allocation and copy.
at::Tensor ToCopy(const at::Tensor& self, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                  std::optional<c10::Device> device, std::optional<bool> pin_memory, bool non_blocking,
                  std::optional<c10::MemoryFormat> memory_format) {
  const bool stays = IsTpu(self) && (!device || *device == self.device() ||
                                     (device->type() == self.device().type() && !device->has_index()));
  if (!stays || (layout && *layout != self.layout())) {
    return at::native::_to_copy(self, dtype, layout, device, pin_memory, non_blocking, memory_format);
  }
  Stack stack{self, dtype, layout, self.device(), pin_memory, non_blocking, memory_format};
  CallKernel("aten::_to_copy", "", &stack);
  return stack.back().toTensor();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy_", &Copy_);
  m.impl("_to_copy", &ToCopy);
  m.impl("_copy_from", &CopyFrom);
  m.impl("_copy_from_and_resize", &CopyFromAndResize);
  m.impl("_local_scalar_dense", &LocalScalarDense);
}

}  // namespace

at::Tensor Dense(const at::Tensor& tensor) {
  const runtime::ValuePtr value = SlotOf(tensor).Get();
  if (value && IsWhole(tensor, *value)) return tensor;
  Stack stack{tensor, c10::MemoryFormat::Contiguous};
  CallKernel("aten::clone", "", &stack);
  return stack.back().toTensor();
}

runtime::ValuePtr Upload(runtime::Device& device, const at::Tensor& source, bool non_blocking) {
  RaiseIfError(device.CheckUsable());
  const auto type = std::make_shared<const runtime::Type>(TypeOf(source));
  const void* data = source.const_data_ptr();
  if (source.nbytes() > 0 && source.nbytes() <= kInlineBytes) {
    return c10::make_intrusive<runtime::Value>(device, type,
                                               std::string(static_cast<const char*>(data), source.nbytes()));
  }
  if (non_blocking && source.is_pinned()) {
    auto value = c10::make_intrusive<runtime::Value>(device, type);
    runtime::Task task;
    task.outputs = {value};
    task.name = "copy from pinned memory";
    task.run = [value, source, &device]() -> Status {
      auto keep = std::make_shared<at::Tensor>(source);
      TPU_ASSIGN_OR_RETURN(pjrt::Buffer buffer,
                           device.client().FromHost(source.const_data_ptr(), value->type().dtype, value->type().dims,
                                                    device.pjrt_device(), pjrt::HostSemantics::kUntilTransferCompletes,
                                                    [keep]() mutable { keep.reset(); }));
      value->Fulfil(std::move(buffer));
      return {};
    };
    runtime::NoteSubmitted(device, device.Submit(std::move(task)));
    return value;
  }
  pjrt::Buffer buffer = ValueOrRaise(
      device.client().FromHost(data, type->dtype, type->dims, device.pjrt_device(), pjrt::HostSemantics::kDuringCall));
  return c10::make_intrusive<runtime::Value>(device, type, std::move(buffer));
}

}  // namespace tpu::aten
