#include "distributed/destination.h"

#include <ATen/MemoryOverlap.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "aten/copy.h"
#include "aten/tensor.h"
#include "runtime/recorder.h"

namespace tpu::distributed {
namespace {

void CheckTensor(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.defined() && aten::IsTpu(tensor), "distributed: expected a tensor on tpu, found ",
              tensor.defined() ? tensor.device().str() : "none");
  TORCH_CHECK(tensor.layout() == at::kStrided, "Tensors must be dense");
}

// Writes row-major elements through strides (in elements).
void WriteStrided(const std::byte* from, std::byte* to, size_t item, const hlo::Ints& sizes, const hlo::Ints& strides,
                  size_t dim) {
  if (dim == sizes.size()) {
    std::memcpy(to, from, item);
    return;
  }
  size_t inner = item;
  for (size_t d = dim + 1; d < sizes.size(); ++d) inner *= static_cast<size_t>(sizes[d]);
  for (int64_t i = 0; i < sizes[dim]; ++i) {
    WriteStrided(from + static_cast<size_t>(i) * inner, to + static_cast<size_t>(i * strides[dim]) * item, item, sizes,
                 strides, dim + 1);
  }
}

}  // namespace

void Destination::Add(const at::Tensor& tensor) {
  CheckTensor(tensor);
  TORCH_CHECK(!tensor.is_conj() && !tensor.is_neg(), "distributed: expected an output without lazy conjugation");
  at::assert_no_internal_overlap(tensor);
  const runtime::Slot& slot = aten::SlotOf(tensor);
  size_t storage = 0;
  while (storage < storages_.size() && storages_[storage].slot != &slot) ++storage;
  if (storage == storages_.size()) {
    Storage added;
    added.tensor = tensor;
    added.slot = &slot;
    added.size_bytes = slot.size_bytes();
    storages_.push_back(std::move(added));
  }
  const size_t item = tensor.element_size();
  tensors_.push_back({storage,
                      static_cast<size_t>(tensor.storage_offset()) * item,
                      tensor.nbytes(),
                      item,
                      tensor.is_contiguous(),
                      tensor.sizes().vec(),
                      tensor.strides().vec(),
                      {},
                      {}});
}

// Whether the contiguous targets leave nothing of the storage as it was.
bool Destination::CoversAll(size_t storage) const {
  std::vector<std::pair<size_t, size_t>> written;
  for (const Target& target : tensors_) {
    if (target.storage == storage && target.contiguous) {
      written.emplace_back(target.offset_bytes, target.offset_bytes + target.size_bytes);
    }
  }
  std::sort(written.begin(), written.end());
  size_t end = 0;
  for (auto [from, to] : written) {
    if (from > end) return false;
    end = std::max(end, to);
  }
  return end >= storages_[storage].size_bytes;
}

void Destination::Commit() {
  for (size_t i = 0; i < storages_.size(); ++i) {
    Storage& storage = storages_[i];
    const at::Tensor& tensor = storage.tensor;
    runtime::Slot& slot = aten::SlotOf(tensor);
    const bool all = CoversAll(i);
    const bool whole = all && tensor.nbytes() == storage.size_bytes && tensor.is_contiguous();
    const DType dtype = aten::ToDType(tensor.scalar_type());
    const auto flat = static_cast<int64_t>(storage.size_bytes / ItemSize(dtype));
    auto type =
        std::make_shared<const runtime::Type>(runtime::Type{dtype, whole ? tensor.sizes().vec() : hlo::Ints{flat}});
    if (!all) {
      storage.base = slot.Get();
      if (storage.base) runtime::FlushRecorded(*storage.base, runtime::FlushReason::kCollective);
    }
    storage.value = c10::make_intrusive<runtime::Value>(slot.device(), std::move(type), runtime::Value::ByOthers::kYes);
    aten::Write(tensor, storage.value);
    storage.tensor.reset();
  }
}

Status Destination::Open() {
  for (Storage& storage : storages_) {
    TPU_ASSIGN_OR_RETURN(storage.output, HostOutput::Create(storage.value));
    if (storage.base) {
      TPU_ASSIGN_OR_RETURN(HostInput base, HostInput::Await(std::move(storage.base)));
      const Bytes memory = storage.output.bytes();
      const size_t held = std::min(base.bytes().size(), memory.size());
      if (held > 0) std::memcpy(memory.data(), base.bytes().data(), held);
      std::fill(memory.begin() + static_cast<std::ptrdiff_t>(held), memory.end(), std::byte{0});
    }
  }
  for (Target& target : tensors_) {
    if (target.contiguous) {
      target.memory = storages_[target.storage].output.bytes();
      if (target.size_bytes == 0) target.offset_bytes = 0;
      target.memory = target.memory.subspan(target.offset_bytes, target.size_bytes);
    } else {
      target.scratch.resize(target.size_bytes);
      target.memory = target.scratch;
    }
  }
  return {};
}

Status Destination::Fulfil() {
  for (const Target& target : tensors_) {
    if (target.contiguous || target.size_bytes == 0) continue;
    WriteStrided(target.scratch.data(), storages_[target.storage].output.bytes().data() + target.offset_bytes,
                 target.item_bytes, target.sizes, target.strides, 0);
  }
  for (Storage& storage : storages_) TPU_RETURN_IF_ERROR(storage.output.Fulfil());
  return {};
}

void Destination::Fail(const std::shared_ptr<const Status>& error) {
  for (Storage& storage : storages_) {
    if (storage.value->ready()) continue;
    storage.value->Fail(error);
    storage.value->device().NoteProgress();
  }
}

runtime::ValuePtr SourceOf(const at::Tensor& tensor) {
  CheckTensor(tensor);
  const at::Tensor dense = aten::Dense(tensor);
  runtime::ValuePtr value = aten::SlotOf(dense).Get();
  runtime::FlushRecorded(*value, runtime::FlushReason::kCollective);
  return value;
}

}  // namespace tpu::distributed
