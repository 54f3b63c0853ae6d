#include "runtime/recording.h"

#include <algorithm>
#include <atomic>

namespace tpu::runtime {
namespace {

// More than this is data that has its own buffer.
constexpr int64_t kMaxPackedElements = 64;

uint64_t NextId() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Recording::Recording() : id_(NextId()) {}

Source Recording::Find(const ValuePtr& value) {
  Value::Place& place = value->place();
  if (place.recording == id_) return {place.produced ? Source::Kind::kProduced : Source::Kind::kTaken, place.index};
  const int64_t count = hlo::NumElements(value->type().dims);
  if (!value->host_bytes().empty() && count <= kMaxPackedElements) {
    const DType dtype = value->type().dtype;
    auto pack = std::find_if(packs_.begin(), packs_.end(), [&](const Pack& p) { return p.dtype == dtype; });
    if (pack == packs_.end()) pack = packs_.insert(pack, {dtype, 0, {}});
    const auto first = static_cast<uint32_t>(pack->count);
    pack->bytes += value->host_bytes();
    pack->count += count;
    return {Source::Kind::kHost, first};  // where it is used again it comes again: equal numbers are no edge
  }
  place = {id_, static_cast<uint32_t>(taken_.size()), false};
  taken_.push_back(value.get());
  return {Source::Kind::kTaken, place.index};
}

void Recording::Append(Node node) {
  key_.push_back(node.op->id());
  for (const ValuePtr& input : node.inputs) key_.push_back(Find(input).word());
  for (const ValuePtr& output : node.outputs) {
    output->place() = {id_, static_cast<uint32_t>(produced_.size()), true};
    produced_.push_back(output.get());
    produced_bytes_ += hlo::NumElements(output->type().dims) * ItemSize(output->type().dtype);
  }
  nodes_.push_back(std::move(node));
}

}  // namespace tpu::runtime
