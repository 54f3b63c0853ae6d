// Allocation and storage: empty, resize_, set_, copies on write.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/is_set_to_native.h>
#include <torch/library.h>

#include "aten/guard.h"
#include "aten/tensor.h"

namespace tpu::aten {
namespace {

runtime::Device& DeviceOf(std::optional<c10::Device> device) {
  return DeviceAt(device ? device->index() : c10::DeviceIndex{-1});
}

c10::ScalarType TypeOr(std::optional<c10::ScalarType> dtype) {
  const c10::ScalarType type = dtype ? *dtype : c10::typeMetaToScalarType(at::get_default_dtype());
  ToDType(type);  // raises for what the device cannot hold
  return type;
}

void CheckStrided(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(!layout || *layout == c10::Layout::Strided, "tpu: expected a strided layout, found ",
                              *layout);
  TORCH_CHECK(!pin_memory || !*pin_memory, "Only dense CPU tensors can be pinned");
}

// torch.utils.deterministic.fill_uninitialized_memory: new memory holds NaN, or the largest number.
bool FillsNewMemory() {
  const at::Context& context = at::globalContext();
  return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
}

at::Tensor Filled(at::Tensor tensor) {
  if (FillsNewMemory()) at::native::fill_empty_deterministic_(tensor);
  return tensor;
}

at::Tensor Empty(c10::IntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                 std::optional<c10::Device> device, std::optional<bool> pin_memory,
                 std::optional<c10::MemoryFormat> memory_format) {
  CheckStrided(layout, pin_memory);
  at::detail::check_size_nonnegative(size);
  const c10::ScalarType type = TypeOr(dtype);
  if (!memory_format || *memory_format == c10::MemoryFormat::Contiguous)
    return Filled(EmptyContiguous(DeviceOf(device), size, type));
  at::Tensor meta = at::detail::empty_meta(size, type, memory_format);
  return Filled(EmptyStrided(DeviceOf(device), size, meta.strides(), type));
}

at::Tensor EmptyStridedOp(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> dtype,
                          std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                          std::optional<bool> pin_memory) {
  CheckStrided(layout, pin_memory);
  at::detail::check_size_nonnegative(size);
  TORCH_CHECK(size.size() == stride.size(), "empty_strided: dimensionality of sizes (", size.size(),
              ") must match dimensionality of strides (", stride.size(), ")");
  for (int64_t s : stride) TORCH_CHECK(s >= 0, "empty_strided: expected strides that are not negative, found ", s);
  return Filled(EmptyStrided(DeviceOf(device), size, stride, TypeOr(dtype)));
}

const at::Tensor& ResizeOp(const at::Tensor& self, c10::IntArrayRef size,
                           std::optional<c10::MemoryFormat> memory_format) {
  at::detail::check_size_nonnegative(size);
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  const size_t offset = static_cast<size_t>(self.storage_offset());
  const auto before = static_cast<int64_t>(self.storage().nbytes());
  const auto finish = [&]() -> const at::Tensor& {
    return FillsNewMemory() ? at::native::fill_resize_deterministic_(self, before) : self;
  };
  if (memory_format && *memory_format != c10::MemoryFormat::Contiguous) {
    TORCH_CHECK(*memory_format != c10::MemoryFormat::Preserve, "Unsupported memory format", *memory_format);
    at::Tensor meta = at::detail::empty_meta(size, self.scalar_type(), memory_format);
    GrowStorage(*self.storage().unsafeGetStorageImpl(),
                at::detail::computeStorageNbytes(size, meta.strides(), self.itemsize(), offset));
    impl->set_sizes_and_strides(size, meta.strides());
    return finish();
  }
  if (self.sizes() == size && !memory_format) return self;  // keeps its strides
  GrowStorage(*self.storage().unsafeGetStorageImpl(),
              at::detail::computeStorageNbytesContiguous(size, self.itemsize(), offset));
  impl->set_sizes_contiguous(size);
  return finish();
}

at::Tensor& SetStorage(at::Tensor& self, at::Storage source, int64_t offset, c10::IntArrayRef size,
                       c10::IntArrayRef stride) {
  TORCH_CHECK(source.device() == self.device(), "Attempted to set the storage of a tensor on device \"", self.device(),
              "\" to a storage on different device \"", source.device(),
              "\".  This is no longer allowed; the devices must match.");
  TORCH_CHECK(offset >= 0, "Tensor: invalid storage offset ", offset);
  std::vector<int64_t> strides = stride.data() == nullptr ? hlo::ContiguousStrides(size) : stride.vec();
  TORCH_CHECK(size.size() == strides.size(), "unequal size length (", size.size(), ") and stride length (",
              strides.size(), ")");
  c10::TensorImpl* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  GrowStorage(*impl->unsafe_storage().unsafeGetStorageImpl(),
              at::detail::computeStorageNbytes(size, strides, self.itemsize(), static_cast<size_t>(offset)));
  impl->set_sizes_and_strides(size, strides, offset);
  return self;
}

at::Tensor& SetWholeStorage(at::Tensor& self, at::Storage source) {
  const int64_t size = static_cast<int64_t>(source.nbytes() / self.itemsize());
  return SetStorage(self, std::move(source), 0, {size}, {});
}

at::Tensor& SetTensor(at::Tensor& self, const at::Tensor& source) {
  if (self.is_same(source)) return self;
  return SetStorage(self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& SetEmpty(at::Tensor& self) {
  c10::DataPtr memory = MakeSlot(SlotOf(self).device(), 0);
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0, std::move(memory),
                                                       c10::GetAllocator(c10::DeviceType::PrivateUse1), true);
  return SetStorage(self, c10::Storage(std::move(storage)), 0, {0}, {});
}

// A Value never changes, so a second slot that points at it is a copy, made when one of the two is written.
at::Tensor LazyClone(const at::Tensor& self) {
  runtime::Slot& slot = SlotOf(self);
  at::Tensor bytes = EmptyContiguous(slot.device(), {static_cast<int64_t>(slot.size_bytes())}, c10::ScalarType::Byte);
  SlotOf(bytes).Set(slot.Get());
  at::Tensor copy = EmptyContiguous(slot.device(), {0}, self.scalar_type());
  return SetStorage(copy, bytes.storage(), self.storage_offset(), self.sizes(), self.strides());
}

// `param.data = other` may move a parameter between the host and the device: both are dense, strided tensors.
bool HasCompatibleShallowCopyType(const at::Tensor& self, const at::Tensor& from) {
  const auto dense = [](const at::Tensor& t) {
    return t.layout() == c10::Layout::Strided && (IsTpu(t) || t.is_cpu() || t.is_meta());
  };
  return dense(self) && dense(from);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &Empty);
  m.impl("empty_strided", &EmptyStridedOp);
  m.impl("resize_", &ResizeOp);
  m.impl("set_.source_Storage_storage_offset", &SetStorage);
  m.impl("set_.source_Storage", &SetWholeStorage);
  m.impl("set_.source_Tensor", &SetTensor);
  m.impl("set_", &SetEmpty);
  m.impl("is_set_to", &at::native::is_set_to);
  m.impl("_lazy_clone", &LazyClone);
  m.impl("_has_compatible_shallow_copy_type", &HasCompatibleShallowCopyType);
}

}  // namespace
}  // namespace tpu::aten
