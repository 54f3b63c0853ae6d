#include "pjrt/buffer.h"

#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "pjrt/call.h"
#include "pjrt/client.h"
#include "pjrt/element_type.h"
#include "pjrt/inline_array.h"

namespace tpu::pjrt {
namespace {

std::atomic<int64_t> live{0};

bool IsRowMajor(const Plugin& plugin, PJRT_Buffer* buffer) {
  PJRT_Buffer_GetMemoryLayout_Args args{};
  args.buffer = buffer;
  if (!TPU_PJRT_CALL(plugin, PJRT_Buffer_GetMemoryLayout, args).ok()) return false;
  if (args.layout.type != PJRT_Buffer_MemoryLayout_Type_Tiled || args.layout.tiled.num_tiles != 0) return false;
  const size_t rank = args.layout.tiled.minor_to_major_size;
  for (size_t i = 0; i < rank; ++i) {
    if (args.layout.tiled.minor_to_major[i] != static_cast<int64_t>(rank - 1 - i)) return false;
  }
  return true;
}

}  // namespace

Buffer::Buffer(std::shared_ptr<const Client> client, PJRT_Buffer* buffer)
    : client_(std::move(client)), buffer_(buffer) {
  if (buffer_ != nullptr) live.fetch_add(1, std::memory_order_relaxed);
}

Buffer::Buffer(Buffer&& other) noexcept
    : client_(std::move(other.client_)), buffer_(std::exchange(other.buffer_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(client_, other.client_);
  std::swap(buffer_, other.buffer_);
  const Buffer held(std::move(other));  // frees what this buffer held
  return *this;
}

Buffer::~Buffer() {
  if (buffer_ == nullptr) return;
  PJRT_Buffer_Destroy_Args args{};
  args.buffer = buffer_;
  (void)TPU_PJRT_CALL(client_->plugin(), PJRT_Buffer_Destroy, args);
  live.fetch_sub(1, std::memory_order_relaxed);
}

DType Buffer::dtype() const {
  PJRT_Buffer_ElementType_Args args{};
  args.buffer = buffer_;
  (void)TPU_PJRT_CALL(client_->plugin(), PJRT_Buffer_ElementType, args);
  // Executable refuses programs whose outputs have no DType, so every buffer has one.
  auto dtype = FromPjrt(args.type);
  return dtype.ok() ? *dtype : DType::kU8;
}

std::span<const int64_t> Buffer::dims() const {
  PJRT_Buffer_Dimensions_Args args{};
  args.buffer = buffer_;
  if (!TPU_PJRT_CALL(client_->plugin(), PJRT_Buffer_Dimensions, args).ok()) return {};
  return {args.dims, args.num_dims};
}

size_t Buffer::dense_size_bytes() const {
  size_t size = ItemSize(dtype());
  for (int64_t dim : dims()) size *= static_cast<size_t>(dim);
  return size;
}

size_t Buffer::size_bytes() const {
  PJRT_Buffer_OnDeviceSizeInBytes_Args args{};
  args.buffer = buffer_;
  if (IsDeleted() || !TPU_PJRT_CALL(client_->plugin(), PJRT_Buffer_OnDeviceSizeInBytes, args).ok()) return 0;
  return args.on_device_size_in_bytes;
}

const Device& Buffer::device() const {
  PJRT_Buffer_Device_Args args{};
  args.buffer = buffer_;
  (void)TPU_PJRT_CALL(client_->plugin(), PJRT_Buffer_Device, args);
  const Device* device = client_->FindDevice(args.device);
  return device != nullptr ? *device : *client_->devices().front();
}

Result<Event> Buffer::ToHost(void* dst, size_t size) const {
  const size_t needed = dense_size_bytes();
  if (size < needed) {
    return Status(Code::kInvalidArgument, "Buffer::ToHost: expected room for " + std::to_string(needed) +
                                              " bytes, found " + std::to_string(size) + ".");
  }
  // The CPU plugin hands even a scalar to another thread, which costs 8 to 20 us.
  if (client_->is_cpu() && !IsDeleted() && ready().IsReady() && IsRowMajor(client_->plugin(), buffer_)) {
    if (Status s = ready().Await(); !s.ok()) return Event::Failed(std::move(s));
    TPU_ASSIGN_OR_RETURN(const void* src, UnsafePointer());
    if (needed > 0) std::memcpy(dst, src, needed);
    return Event();
  }
  PJRT_Buffer_ToHostBuffer_Args args{};
  args.src = buffer_;
  args.dst = dst;
  args.dst_size = size;
  // Without a layout the plugin copies in the device's own order of dimensions.
  const size_t rank = dims().size();
  InlineArray<int64_t, 16> minor_to_major(rank);
  PJRT_Buffer_MemoryLayout layout{};
  if (rank > 1) {
    for (size_t i = 0; i < rank; ++i) minor_to_major[i] = static_cast<int64_t>(rank - 1 - i);
    layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
    layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
    layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
    layout.tiled.minor_to_major = minor_to_major.data();
    layout.tiled.minor_to_major_size = rank;
    args.host_layout = &layout;
  }
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(client_->plugin(), PJRT_Buffer_ToHostBuffer, args));
  return Event(&client_->plugin(), args.event);
}

Result<const void*> Buffer::UnsafePointer() const {
  if (!client_->is_cpu()) {
    return Status(Code::kUnimplemented, "Buffer::UnsafePointer: expected a CPU platform, found " +
                                            client_->platform_name() + ". Copy with ToHost.");
  }
  PJRT_Buffer_UnsafePointer_Args args{};
  args.buffer = buffer_;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(client_->plugin(), PJRT_Buffer_UnsafePointer, args));
  return reinterpret_cast<const void*>(args.buffer_pointer);
}

Event Buffer::ready() const {
  PJRT_Buffer_ReadyEvent_Args args{};
  args.buffer = buffer_;
  Status status = TPU_PJRT_CALL(client_->plugin(), PJRT_Buffer_ReadyEvent, args);
  return status.ok() ? Event(&client_->plugin(), args.event) : Event::Failed(std::move(status));
}

void Buffer::Delete() {
  if (buffer_ == nullptr) return;
  PJRT_Buffer_Delete_Args args{};
  args.buffer = buffer_;
  (void)TPU_PJRT_CALL(client_->plugin(), PJRT_Buffer_Delete, args);
}

bool Buffer::IsDeleted() const {
  if (buffer_ == nullptr) return true;
  PJRT_Buffer_IsDeleted_Args args{};
  args.buffer = buffer_;
  return !TPU_PJRT_CALL(client_->plugin(), PJRT_Buffer_IsDeleted, args).ok() || args.is_deleted;
}

Result<Buffer> Buffer::CopyToDevice(const Device& device) const {
  PJRT_Buffer_CopyToDevice_Args args{};
  args.buffer = buffer_;
  args.dst_device = device.get();
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(client_->plugin(), PJRT_Buffer_CopyToDevice, args));
  return Buffer(client_, args.dst_buffer);
}

int64_t Buffer::LiveCount() { return live.load(std::memory_order_relaxed); }

}  // namespace tpu::pjrt
