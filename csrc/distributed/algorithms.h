// The collectives, on host memory: what each sends to whom, and how results come of it. All pure functions of an Exchange.
#pragma once

#include "distributed/exchange.h"
#include "distributed/group.h"
#include "distributed/reduction.h"

namespace tpu::distributed {

// in[0] on every rank, reduced, is out[0] on every rank. All ranks get the same bits.
Status AllReduce(Exchange& exchange, Reduction reduction, DType dtype, Inputs in, Outputs out);
// ... is out[0] on the root, which alone has an output.
Status ReduceTo(Exchange& exchange, int root, Reduction reduction, DType dtype, Inputs in, Outputs out);
// in[p] is for rank p; out[0] is the reduction of what is for this rank.
Status ReduceScatter(Exchange& exchange, Reduction reduction, DType dtype, Inputs in, Outputs out);
// in[0] of rank p is out[p].
Status AllGather(Exchange& exchange, Inputs in, Outputs out);
// in[0] of the root is out[0].
Status Broadcast(Exchange& exchange, int root, Inputs in, Outputs out);
// in[0] of rank p is out[p] on the root, which alone has outputs.
Status Gather(Exchange& exchange, int root, Inputs in, Outputs out);
// in[p] of the root, which alone has inputs, is out[0] of rank p.
Status Scatter(Exchange& exchange, int root, Inputs in, Outputs out);
// in[q] of rank p is out[p] of rank q.
Status AllToAll(Exchange& exchange, Inputs in, Outputs out);
Status Barrier(Exchange& exchange);

// [begin, end) of part `index` of `size` elements cut into `count` parts as equal as possible.
std::pair<size_t, size_t> PartOf(size_t size, int count, int index);

}  // namespace tpu::distributed
