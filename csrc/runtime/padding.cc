#include "runtime/padding.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "runtime/recorder.h"

namespace tpu::runtime {
namespace {

std::atomic<char> padding_byte{0};

// Ops that cut and resize, by what they do; they live as long as the process, as an operator's entries do.
using OpKey = std::tuple<DType, Ints, Ints, Ints>;
template <typename Make>
OpPtr Cached(const OpKey& key, const Make& make) {
  static auto& mutex = *new std::mutex;  // guards ops
  static auto& ops = *new std::map<OpKey, OpPtr>;
  std::lock_guard lock(mutex);
  OpPtr& op = ops[key];
  if (!op) op = make();
  return op;
}

OpPtr CutOp(const Type& whole, const Ints& box, const TypePtr& type) {
  return Cached({whole.dtype, whole.dims, box, type->dims}, [&] {
    const auto emit = [box, dims = type->dims](hlo::Builder& b, std::span<const hlo::Value> inputs, hlo::Value) {
      return Emission{{b.Reshape(b.Slice(inputs[0], Ints(box.size(), 0), box), dims)}, 0};
    };
    return std::make_shared<Op>("cut to size", emit, std::vector<TypePtr>{std::make_shared<Type>(whole)},
                                std::vector<std::pair<int, int>>{}, false);
  });
}

OpPtr ResizeOp(const Type& whole, const Ints& dims) {
  return Cached({whole.dtype, whole.dims, dims, {-1}}, [&] {
    const auto emit = [dims](hlo::Builder& b, std::span<const hlo::Value> inputs, hlo::Value) {
      Ints common(dims.size()), high(dims.size());
      for (size_t d = 0; d < dims.size(); ++d) {
        common[d] = std::min(dims[d], inputs[0].dims()[d]);
        high[d] = dims[d] - common[d];
      }
      const Ints zeros(dims.size(), 0);
      hlo::Value cut = b.Slice(inputs[0], zeros, common);
      return Emission{{b.Pad(cut, b.ConstInt(0, cut.dtype()), zeros, high)}, 0};
    };
    return std::make_shared<Op>("another bucket", emit, std::vector<TypePtr>{std::make_shared<Type>(whole)},
                                std::vector<std::pair<int, int>>{}, false);
  });
}

// Calls copy(offset in the whole, offset in the box, bytes) for each row.
template <typename Copy>
void ForRows(const Ints& box, const Ints& dims, size_t item_bytes, const Copy& copy) {
  if (hlo::NumElements(box) == 0) return;
  if (box.empty()) return copy(0, 0, item_bytes);
  const Ints strides = hlo::ContiguousStrides(dims);
  const size_t row = static_cast<size_t>(box.back()) * item_bytes;
  Ints index(box.size() - 1, 0);
  size_t done = 0;
  while (true) {
    int64_t offset = 0;
    for (size_t d = 0; d < index.size(); ++d) offset += index[d] * strides[d];
    copy(static_cast<size_t>(offset) * item_bytes, done, row);
    done += row;
    size_t d = index.size();
    while (d > 0 && ++index[d - 1] == box[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

size_t Bytes(const Type& type) { return static_cast<size_t>(hlo::NumElements(type.dims)) * ItemSize(type.dtype); }

}  // namespace

void SetPaddingByte(char byte) { padding_byte.store(byte); }

ValuePtr Cut(const Padded& padded) {
  const Capture::Pause pause;
  Device& device = padded.whole->device();
  Result<Recorded> recorded = Record(device, CutOp(padded.whole->type(), padded.box, padded.type), {padded.whole}, {});
  if (recorded.ok()) return (*recorded)[0];
  auto failed = c10::make_intrusive<Value>(device, padded.type);
  failed->Fail(std::make_shared<const Status>(recorded.status()));
  return failed;
}

Result<ValuePtr> Resized(const Padded& padded, const Ints& dims) {
  if (dims == padded.whole->type().dims) return padded.whole;
  TPU_ASSIGN_OR_RETURN(Recorded recorded,
                       Record(padded.whole->device(), ResizeOp(padded.whole->type(), dims), {padded.whole}, {}));
  return recorded[0];
}

Result<ValuePtr> PaddedOnHost(Value& value, const Ints& box, const Ints& dims) {
  const size_t item = ItemSize(value.type().dtype);
  std::string bytes(Bytes(value.type()), 0);
  TPU_RETURN_IF_ERROR(ReadToHost(value, bytes.data(), bytes.size()));
  auto type = std::make_shared<const Type>(Type{value.type().dtype, dims});
  std::string whole(Bytes(*type), padding_byte.load());
  ForRows(box, dims, item,
          [&](size_t at, size_t from, size_t size) { std::memcpy(whole.data() + at, bytes.data() + from, size); });
  Device& device = value.device();
  TPU_RETURN_IF_ERROR(device.CheckUsable());
  TPU_ASSIGN_OR_RETURN(pjrt::Buffer buffer,
                       device.client().FromHost(whole.data(), type->dtype, type->dims, device.pjrt_device(),
                                                pjrt::HostSemantics::kDuringCall));
  return c10::make_intrusive<Value>(device, type, std::move(buffer));
}

Status ReadToHost(const Padded& padded, void* destination, size_t size_bytes) {
  const Type& type = padded.whole->type();
  const size_t item = ItemSize(type.dtype);
  if (static_cast<size_t>(hlo::NumElements(padded.box)) * item != size_bytes)
    return {Code::kInternal, "a padded array: expected its own bytes"};
  std::string bytes(Bytes(type), 0);
  TPU_RETURN_IF_ERROR(ReadToHost(*padded.whole, bytes.data(), bytes.size()));
  ForRows(padded.box, type.dims, item, [&](size_t at, size_t to, size_t size) {
    std::memcpy(static_cast<char*>(destination) + to, bytes.data() + at, size);
  });
  return {};
}

}  // namespace tpu::runtime
