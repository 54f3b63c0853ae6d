// The tensors that a collective writes: their slots take pending Values at the call, which the collective fulfils.
//
// A tensor that is its whole storage gets a Value of its own; views get one Value a storage, which starts from what the
// storage held, so that nothing of this waits in the device's queue.
// Threads: Add and Commit on the caller's; the rest on the collective's.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "distributed/host_array.h"

namespace tpu::distributed {

class Destination {
 public:
  // Raises for a tensor that cannot be written: not on the device, sparse, conjugated, overlapping itself.
  void Add(const at::Tensor& tensor);
  // Swaps the pending Values in.
  void Commit();
  size_t count() const { return tensors_.size(); }

  // Allocates; afterwards memory(i) is where the row-major contents of tensor i go.
  Status Open();
  Bytes memory(size_t i) const { return tensors_[i].memory; }
  // All contents are written: makes the Values ready.
  Status Fulfil();
  // Fails those that are pending.
  void Fail(const std::shared_ptr<const Status>& error);

 private:
  struct Storage {
    at::Tensor tensor;  // until Commit
    const void* slot = nullptr;
    size_t size_bytes = 0;
    runtime::ValuePtr value, base;
    HostOutput output;
  };
  struct Target {
    size_t storage;
    size_t offset_bytes, size_bytes, item_bytes;
    bool contiguous;
    hlo::Ints sizes, strides;
    std::vector<std::byte> scratch;
    Bytes memory;
  };
  bool CoversAll(size_t storage) const;

  std::vector<Storage> storages_;
  std::vector<Target> tensors_;
};

// The Value that has the tensor's elements, row-major; what fuse mode has recorded of it is submitted. Raises for a tensor
// that is not on the device or not dense.
runtime::ValuePtr SourceOf(const at::Tensor& tensor);

}  // namespace tpu::distributed
