#include "distributed/host_array.h"

#include <utility>

#include "runtime/device.h"

namespace tpu::distributed {

size_t SizeBytes(const runtime::Type& type) {
  return static_cast<size_t>(hlo::NumElements(type.dims)) * ItemSize(type.dtype);
}

Result<HostInput> HostInput::Await(runtime::ValuePtr value) {
  HostInput input;
  const size_t size = SizeBytes(value->type());
  if (!value->ready() && !value->host_bytes().empty()) {
    input.bytes_ = std::as_bytes(std::span(value->host_bytes()));
  } else {
    runtime::Device& device = value->device();
    if (!value->ready()) device.AwaitValue(*value);
    pjrt::Buffer* buffer = value->buffer();
    if (buffer == nullptr) {
      if (value->error()) return *value->error();
      return Status(Code::kInternal, "an input was never computed");
    }
    TPU_RETURN_IF_ERROR(buffer->ready().Await());
    if (size == 0) {
    } else if (device.client().is_cpu()) {
      TPU_ASSIGN_OR_RETURN(const void* data, buffer->UnsafePointer());
      input.bytes_ = {static_cast<const std::byte*>(data), size};
    } else {
      input.copy_.resize(size);
      TPU_ASSIGN_OR_RETURN(pjrt::Event copied, buffer->ToHost(input.copy_.data(), size));
      TPU_RETURN_IF_ERROR(copied.Await());
      input.bytes_ = input.copy_;
    }
  }
  input.value_ = std::move(value);
  return input;
}

Result<HostOutput> HostOutput::Create(runtime::ValuePtr value) {
  HostOutput output;
  const runtime::Type& type = value->type();
  const size_t size = SizeBytes(type);
  runtime::Device& device = value->device();
  if (device.client().is_cpu()) {
    TPU_ASSIGN_OR_RETURN(output.buffer_, device.client().Uninitialized(type.dtype, type.dims, device.pjrt_device()));
    TPU_RETURN_IF_ERROR(output.buffer_.ready().Await());
    if (size > 0) {
      // Nobody else knows of the buffer yet, so it may be written.
      TPU_ASSIGN_OR_RETURN(const void* data, output.buffer_.UnsafePointer());
      output.bytes_ = {static_cast<std::byte*>(const_cast<void*>(data)), size};
    }
  } else {
    output.copy_.resize(size);
    output.bytes_ = output.copy_;
  }
  output.value_ = std::move(value);
  return output;
}

Status HostOutput::Fulfil() {
  runtime::Device& device = value_->device();
  if (!device.client().is_cpu()) {
    const runtime::Type& type = value_->type();
    TPU_ASSIGN_OR_RETURN(buffer_, device.client().FromHost(copy_.data(), type.dtype, type.dims, device.pjrt_device(),
                                                           pjrt::HostSemantics::kDuringCall));
  }
  value_->Fulfil(std::move(buffer_));
  device.NoteProgress();
  return {};
}

}  // namespace tpu::distributed
