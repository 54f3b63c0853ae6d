// An immutable array on a device.
//
// Ownership: move-only, owns its PJRT_Buffer and keeps its Client alive. An empty buffer (default-constructed or
// moved-from) may only be destroyed, assigned to, or asked IsDeleted().
// Lifetime of the memory: it is freed when the last computation that reads it is done, so a buffer may be destroyed
// while in use. A donated buffer stays a valid object that IsDeleted(); destroying it is still the caller's.
// Threads: const methods may be called from any thread; Delete() and moves need exclusive access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/dtype.h"
#include "base/status.h"
#include "pjrt/event.h"

struct PJRT_Buffer;

namespace tpu::pjrt {

class Client;
class Device;

class Buffer {
 public:
  Buffer() = default;
  // Takes ownership of `buffer`.
  Buffer(std::shared_ptr<const Client> client, PJRT_Buffer* buffer);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  ~Buffer();

  bool empty() const { return buffer_ == nullptr; }
  // Shape and type stay readable after deletion or donation.
  DType dtype() const;
  // Lives as long as the buffer.
  std::span<const int64_t> dims() const;
  // Bytes of the dense row-major host form: product of dims times ItemSize(dtype).
  size_t dense_size_bytes() const;
  // Bytes that the buffer takes on the device, padding included; 0 once deleted.
  size_t size_bytes() const;
  // The device it lives on: one of the client's devices().
  const Device& device() const;
  const Client& client() const { return *client_; }

  // Starts a copy into `dst` (at least dense_size_bytes(), which must stay alive until the event completes), dense and
  // row-major whatever the layout on the device. On CPU a ready buffer is copied before the call returns.
  Result<Event> ToHost(void* dst, size_t size) const;

  // The host address of the data where the platform's memory is the host's (CPU); kUnimplemented elsewhere. Await
  // ready() before reading through it. Valid until the buffer is destroyed, deleted or donated. Never write through it.
  Result<const void*> UnsafePointer() const;

  // Completes when the contents are there, or with the error of the computation that was to make them.
  Event ready() const;

  // Gives the memory back early; the object stays.
  void Delete();
  // True after Delete(), after donation, and for an empty buffer.
  bool IsDeleted() const;

  // A copy on another device of the same client (kInvalidArgument from the plugin when it is the same device).
  Result<Buffer> CopyToDevice(const Device& device) const;

  PJRT_Buffer* get() const { return buffer_; }

  // Buffers alive in the process (empty ones not counted).
  static int64_t LiveCount();

 private:
  std::shared_ptr<const Client> client_;
  PJRT_Buffer* buffer_ = nullptr;
};

}  // namespace tpu::pjrt
