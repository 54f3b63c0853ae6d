#include "aten/tensor.h"

#include <ATen/EmptyTensor.h>

#include "aten/errors.h"
#include "aten/guard.h"
#include "runtime/recorder.h"

namespace tpu::aten {
namespace {

void DeleteSlot(void* context) { delete static_cast<runtime::Slot*>(context); }

const c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor MakeTensor(runtime::Device& device, size_t size_bytes, c10::ScalarType dtype) {
  return TensorOver(NewStorage(device, size_bytes), dtype);
}

}  // namespace

c10::DataPtr MakeSlot(runtime::Device& device, size_t size_bytes) {
  std::unique_ptr<runtime::Slot> slot = ValueOrRaise(runtime::Slot::Create(device, size_bytes));
  void* address = slot->address();
  return {address, slot.release(), &DeleteSlot,
          c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device.index()))};
}

c10::Storage NewStorage(runtime::Device& device, size_t size_bytes) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), size_bytes,
                                                            MakeSlot(device, size_bytes),
                                                            c10::GetAllocator(c10::DeviceType::PrivateUse1),
                                                            /*resizable=*/true));
}

at::Tensor TensorOver(c10::Storage storage, c10::ScalarType dtype) {
  return at::detail::make_tensor<c10::TensorImpl>(std::move(storage), kKeys, c10::scalarTypeToTypeMeta(dtype));
}

at::Tensor EmptyStrided(runtime::Device& device, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                        c10::ScalarType dtype) {
  const size_t size_bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype));
  at::Tensor tensor = MakeTensor(device, size_bytes, dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return tensor;
}

at::Tensor EmptyContiguous(runtime::Device& device, c10::IntArrayRef sizes, c10::ScalarType dtype) {
  const size_t size_bytes = at::detail::computeStorageNbytesContiguous(sizes, c10::elementSize(dtype));
  at::Tensor tensor = MakeTensor(device, size_bytes, dtype);
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

at::Tensor FromValue(runtime::ValuePtr value) {
  at::Tensor tensor = EmptyContiguous(value->device(), value->type().dims, ToScalarType(value->type().dtype));
  SlotOf(tensor).Set(std::move(value));
  return tensor;
}

runtime::Slot& SlotOf(const c10::StorageImpl& storage) {
  const c10::DataPtr& data = storage.data_ptr();
  if (data.get_deleter() == &DeleteSlot) [[likely]]
    return *static_cast<runtime::Slot*>(data.get_context());
  // at::from_blob over a storage's address.
  runtime::Slot* slot = DeviceAt(data.device().index()).FindSlot(data.get());
  TORCH_CHECK(
      slot,
      "tpu: expected a storage made by the tpu allocator, found foreign memory, or an address inside a storage. "
      "Share clone(), or copy through cpu().");
  return *slot;
}

runtime::Slot& SlotOf(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  // A transform's wrapper (vmap's), below the dispatch key that would have unwrapped it.
  TORCH_CHECK_NOT_IMPLEMENTED(impl.unsafe_storage(), "tpu: expected a tensor with storage, found a wrapper without: ",
                              impl.key_set().highestPriorityTypeId());
  return SlotOf(*impl.unsafe_storage().unsafeGetStorageImpl());
}

void Write(const at::Tensor& tensor, runtime::ValuePtr value) {
  if (runtime::Capture* capture = runtime::Capture::Current()) {
    capture->NoteWrite(SlotOf(tensor), std::make_shared<const c10::Storage>(tensor.storage()));
  }
  SlotOf(tensor).Set(std::move(value));
}

void ResizeStorage(c10::StorageImpl& storage, size_t size_bytes) {
  RaiseIfError(SlotOf(storage).Resize(size_bytes));
  storage.set_nbytes(size_bytes);
}

void GrowStorage(c10::StorageImpl& storage, size_t size_bytes) {
  if (size_bytes > SlotOf(storage).size_bytes()) ResizeStorage(storage, size_bytes);
}

hlo::View ViewOf(const at::Tensor& tensor) {
  return {tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset(), tensor.is_conj(), tensor.is_neg()};
}

runtime::Type TypeOf(const at::Tensor& tensor) {
  return tensor.defined() ? runtime::Type{ToDType(tensor.scalar_type()), tensor.sizes().vec()} : runtime::Type{};
}

bool IsWhole(const at::Tensor& tensor, const runtime::Value& value) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return impl.storage_offset() == 0 && impl.is_contiguous() && !tensor.is_conj() && !tensor.is_neg() &&
         c10::IntArrayRef(value.type().dims) == impl.sizes() && value.type().dtype == ToDType(tensor.scalar_type());
}

}  // namespace tpu::aten
