#include "distributed/algorithms.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tpu::distributed {
namespace {

using Sent = std::vector<ConstBytes>;
using Received = std::vector<Bytes>;

// Below this, sending all to all and reducing everywhere takes one round instead of two.
constexpr size_t kOneRoundBytes = 8192;

// One piece of memory for every rank's part but the own.
class Scratch {
 public:
  Scratch(const Exchange& exchange, size_t bytes) : memory_(static_cast<size_t>(exchange.size()) * bytes) {
    for (int p = 0; p < exchange.size(); ++p) parts_.push_back(Bytes(memory_).subspan(p * bytes, bytes));
  }
  Received parts() const { return parts_; }

 private:
  std::vector<std::byte> memory_;
  Received parts_;
};

void Copy(ConstBytes from, Bytes to) {
  if (!from.empty() && from.data() != to.data()) std::memcpy(to.data(), from.data(), from.size());
}

// Everybody's in[0], reduced into out.
Status ReduceAll(Exchange& exchange, Reduction reduction, DType dtype, ConstBytes own, const Sent& send, Bytes out) {
  const Scratch scratch(exchange, own.size());
  Received receive = scratch.parts();
  Received others = receive;
  others[exchange.rank()] = {};
  Sent sent = send;
  sent[exchange.rank()] = {};
  TPU_RETURN_IF_ERROR(exchange.Run(sent, others));
  Sent sources(receive.begin(), receive.end());
  sources[exchange.rank()] = own;
  Reduce(reduction, dtype, sources, out);
  return {};
}

}  // namespace

std::pair<size_t, size_t> PartOf(size_t size, int count, int index) {
  const size_t each = size / count, rest = size % count;
  const auto begin = [&](size_t i) { return i * each + std::min(i, rest); };
  return {begin(index), begin(index + 1)};
}

Status AllReduce(Exchange& exchange, Reduction reduction, DType dtype, Inputs in, Outputs out) {
  const int n = exchange.size();
  const size_t item = ItemSize(dtype), size = in[0].size();
  if (size <= kOneRoundBytes) return ReduceAll(exchange, reduction, dtype, in[0], Sent(n, in[0]), out[0]);
  const auto part = [&](auto bytes, int index) {
    const auto [begin, end] = PartOf(size / item, n, index);
    return bytes.subspan(begin * item, (end - begin) * item);
  };
  Sent send(n);
  for (int p = 0; p < n; ++p) send[p] = part(in[0], p);
  const Bytes own = part(out[0], exchange.rank());
  TPU_RETURN_IF_ERROR(ReduceAll(exchange, reduction, dtype, part(in[0], exchange.rank()), send, own));
  Received receive(n);
  for (int p = 0; p < n; ++p) receive[p] = part(out[0], p);
  return exchange.Run(Sent(n, ConstBytes(own)), receive);
}

Status ReduceTo(Exchange& exchange, int root, Reduction reduction, DType dtype, Inputs in, Outputs out) {
  Sent send(exchange.size());
  if (exchange.rank() == root) return ReduceAll(exchange, reduction, dtype, in[0], send, out[0]);
  send[root] = in[0];
  return exchange.Run(send, Received(exchange.size()));
}

Status ReduceScatter(Exchange& exchange, Reduction reduction, DType dtype, Inputs in, Outputs out) {
  return ReduceAll(exchange, reduction, dtype, in[exchange.rank()], Sent(in.begin(), in.end()), out[0]);
}

Status AllGather(Exchange& exchange, Inputs in, Outputs out) {
  return exchange.Run(Sent(exchange.size(), in[0]), Received(out.begin(), out.end()));
}

Status Broadcast(Exchange& exchange, int root, Inputs in, Outputs out) {
  Sent send(exchange.size());
  Received receive(exchange.size());
  if (exchange.rank() == root) {
    send.assign(exchange.size(), in[0]);
    Copy(in[0], out[0]);
    send[root] = {};
  } else {
    receive[root] = out[0];
  }
  return exchange.Run(send, receive);
}

Status Gather(Exchange& exchange, int root, Inputs in, Outputs out) {
  Sent send(exchange.size());
  send[root] = in[0];
  Received receive(exchange.size());
  if (exchange.rank() == root) receive.assign(out.begin(), out.end());
  return exchange.Run(send, receive);
}

Status Scatter(Exchange& exchange, int root, Inputs in, Outputs out) {
  Sent send(exchange.size());
  if (exchange.rank() == root) send.assign(in.begin(), in.end());
  Received receive(exchange.size());
  receive[root] = out[0];
  return exchange.Run(send, receive);
}

Status AllToAll(Exchange& exchange, Inputs in, Outputs out) {
  return exchange.Run(Sent(in.begin(), in.end()), Received(out.begin(), out.end()));
}

Status Barrier(Exchange& exchange) { return exchange.Run(Sent(exchange.size()), Received(exchange.size())); }

}  // namespace tpu::distributed
