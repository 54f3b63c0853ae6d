#include "distributed/algorithms.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace tpu::distributed {
namespace {

using Sent = std::vector<ConstBytes>;
using Received = std::vector<Bytes>;

// Below this, sending all to all and reducing everywhere takes one round instead of two.
constexpr size_t kOneRoundBytes = 8192;

// What a large all_reduce is cut into, so that reducing goes on beside sending, in memory that the cache still has.
constexpr size_t kPieceBytes = size_t{1} << 19;

// Memory for what all others send to be reduced into `out`: the first of them sends it there, the rest beside.
class Incoming {
 public:
  Incoming(const Exchange& exchange, Bytes out) : parts_(exchange.size()) {
    const auto others = static_cast<size_t>(std::max(exchange.size() - 2, 0));
    memory_ = std::make_unique_for_overwrite<std::byte[]>(others * out.size());
    size_t used = 0;
    bool first = true;
    for (int p = 0; p < exchange.size(); ++p) {
      if (p == exchange.rank()) continue;
      if (std::exchange(first, false)) {
        parts_[p] = out;
      } else {
        parts_[p] = Bytes(memory_.get() + used, out.size());
        used += out.size();
      }
    }
  }
  const Received& parts() const { return parts_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  Received parts_;
};

void Copy(ConstBytes from, Bytes to) {
  if (!from.empty() && from.data() != to.data()) std::memcpy(to.data(), from.data(), from.size());
}

// Everybody's in[0], reduced into out.
Status ReduceAll(Exchange& exchange, Reduction reduction, DType dtype, ConstBytes own, const Sent& send, Bytes out) {
  const Incoming incoming(exchange, out);
  Sent sent = send;
  sent[exchange.rank()] = {};
  TPU_RETURN_IF_ERROR(exchange.Run(sent, incoming.parts()));
  Sent sources(incoming.parts().begin(), incoming.parts().end());
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
  const int n = exchange.size(), self = exchange.rank();
  const size_t item = ItemSize(dtype), size = in[0].size();
  if (n == 1 || size <= kOneRoundBytes) return ReduceAll(exchange, reduction, dtype, in[0], Sent(n, in[0]), out[0]);
  // Each rank reduces its part of all others' and sends the result to all, piece by piece.
  TPU_RETURN_IF_ERROR(Barrier(exchange));
  const auto part = [&](auto bytes, int index) {
    const auto [begin, end] = PartOf(size / item, n, index);
    return bytes.subspan(begin * item, (end - begin) * item);
  };
  const auto piece = [](auto bytes, size_t k) {
    const size_t begin = std::min(k * kPieceBytes, bytes.size());
    return bytes.subspan(begin, std::min(kPieceBytes, bytes.size() - begin));
  };
  const Bytes result = part(out[0], self);
  const Incoming incoming(exchange, result);
  const size_t pieces = (PartOf(size / item, n, 0).second * item + kPieceBytes - 1) / kPieceBytes;
  std::vector<size_t> arrived;
  const auto others = [&](const auto& post) -> Status {
    for (int step = 1; step < n; ++step) TPU_RETURN_IF_ERROR(post((self + step) % n));
    return {};
  };
  for (size_t k = 0; k < pieces; ++k) {
    TPU_RETURN_IF_ERROR(others([&](int p) { return exchange.Receive(p, piece(incoming.parts()[p], k)); }));
    arrived.push_back(exchange.posted());
  }
  for (size_t k = 0; k < pieces; ++k) {
    TPU_RETURN_IF_ERROR(others([&](int p) { return exchange.Receive(p, piece(part(out[0], p), k)); }));
  }
  for (size_t k = 0; k < pieces; ++k) {
    TPU_RETURN_IF_ERROR(others([&](int p) { return exchange.Send(p, piece(part(in[0], p), k)); }));
  }
  for (size_t k = 0; k < pieces; ++k) {
    TPU_RETURN_IF_ERROR(exchange.AwaitUpTo(arrived[k]));
    Sent sources;
    for (int p = 0; p < n; ++p) {
      sources.push_back(piece(p == self ? part(in[0], p) : ConstBytes(incoming.parts()[p]), k));
    }
    Reduce(reduction, dtype, sources, piece(result, k));
    TPU_RETURN_IF_ERROR(others([&](int p) { return exchange.Send(p, piece(ConstBytes(result), k)); }));
  }
  return exchange.AwaitUpTo(exchange.posted());
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
