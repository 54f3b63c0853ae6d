// The collectives of the backend: what each does with its tensors.
#include <torch/csrc/distributed/c10d/Utils.hpp>

#include <utility>

#include "distributed/batch.h"

namespace tpu::distributed {
namespace {

using Work = c10::intrusive_ptr<c10d::Work>;
using Body = std::function<Status(Exchange&, Inputs, Outputs)>;

void CheckRoot(const std::string& name, int64_t root, int size) {
  TORCH_CHECK(root >= 0 && root < size, name, ": invalid root rank: ", root);
}

std::string Typed(const std::string& name, const at::Tensor& tensor) {
  return name + " " + Describe(tensor.scalar_type());
}

std::string Counted(const std::string& name, const at::Tensor& tensor) {
  return Typed(name, tensor) + " " + std::to_string(tensor.numel());
}

// The body on inputs that are multiplied by the plan's factor, if it has one.
Body Premultiplied(const ReduceOpPlan& plan, DType dtype, Body body) {
  if (!plan.factor) return body;
  return [factor = *plan.factor, dtype, body = std::move(body)](Exchange& exchange, Inputs in, Outputs out) {
    std::vector<std::vector<std::byte>> memory;
    std::vector<ConstBytes> scaled;
    for (const ConstBytes& input : in) {
      memory.emplace_back(input.size());
      Scale(dtype, factor, input, memory.back());
      scaled.push_back(memory.back());
    }
    return body(exchange, scaled, out);
  };
}

// Cuts an array of all ranks' equal parts.
template <typename Span>
std::vector<Span> Cut(Span bytes, int count) {
  std::vector<Span> parts;
  const size_t each = bytes.size() / static_cast<size_t>(count);
  for (int p = 0; p < count; ++p) parts.push_back(bytes.subspan(static_cast<size_t>(p) * each, each));
  return parts;
}

// Cuts along the first dimension: sizes in rows, or equal parts where there are none.
template <typename Span>
std::vector<Span> CutRows(Span bytes, const std::vector<int64_t>& rows, int64_t all_rows, int count) {
  if (rows.empty()) return Cut(bytes, count);
  const size_t row = all_rows == 0 ? 0 : bytes.size() / static_cast<size_t>(all_rows);
  std::vector<Span> parts;
  size_t begin = 0;
  for (int64_t n : rows) {
    parts.push_back(bytes.subspan(begin, row * static_cast<size_t>(n)));
    begin += parts.back().size();
  }
  return parts;
}

}  // namespace

Work ProcessGroup::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  Batch batch(c10d::OpType::BROADCAST, "broadcast", "tpu:broadcast", options.timeout);
  const at::Tensor& tensor = batch.Single(tensors);
  const int root = static_cast<int>(options.rootRank);
  CheckRoot(batch.name, root, size_);
  const std::string name = "broadcast(src=" + std::to_string(root) + ")";
  Call& call = batch.Add(name + " of " + Describe(tensor), Counted(name, tensor));
  if (root == rank_) batch.Read(call, tensor);
  batch.Write(call, tensor);
  call.body = [root](Exchange& exchange, Inputs in, Outputs out) { return Broadcast(exchange, root, in, out); };
  return Start(std::move(batch));
}

Work ProcessGroup::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  c10d::AllreduceCoalescedOptions coalesced;
  coalesced.reduceOp = options.reduceOp;
  coalesced.timeout = options.timeout;
  TORCH_CHECK(tensors.size() == 1, "all_reduce: expected a single tensor, found ", tensors.size());
  return allreduce_coalesced(tensors, coalesced);
}

Work ProcessGroup::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  Batch batch(tensors.size() == 1 ? c10d::OpType::ALLREDUCE : c10d::OpType::ALLREDUCE_COALESCED, "all_reduce",
              "tpu:all_reduce", options.timeout);
  TORCH_CHECK(!tensors.empty(), "all_reduce: expected a tensor, found none");
  batch.calls.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    const ReduceOpPlan plan = PlanOf(options.reduceOp, tensor);
    const DType dtype = aten::ToDType(tensor.scalar_type());
    const std::string name = "all_reduce(" + plan.name + ")";
    Call& call = batch.Add(name + " of " + Describe(tensor), Counted(name, tensor));
    batch.Read(call, tensor);
    batch.Write(call, tensor);
    call.body = Premultiplied(plan, dtype, [reduction = plan.reduction, dtype](Exchange& e, Inputs in, Outputs out) {
      return AllReduce(e, reduction, dtype, in, out);
    });
  }
  return Start(std::move(batch));
}

Work ProcessGroup::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  Batch batch(c10d::OpType::REDUCE, "reduce", "tpu:reduce", options.timeout);
  const at::Tensor& tensor = batch.Single(tensors);
  const int root = static_cast<int>(options.rootRank);
  CheckRoot(batch.name, root, size_);
  const ReduceOpPlan plan = PlanOf(options.reduceOp, tensor);
  const DType dtype = aten::ToDType(tensor.scalar_type());
  const std::string name = "reduce(" + plan.name + ", dst=" + std::to_string(root) + ")";
  Call& call = batch.Add(name + " of " + Describe(tensor), Counted(name, tensor));
  batch.Read(call, tensor);
  if (root == rank_) batch.Write(call, tensor);
  call.body =
      Premultiplied(plan, dtype, [reduction = plan.reduction, dtype, root](Exchange& e, Inputs in, Outputs out) {
        return ReduceTo(e, root, reduction, dtype, in, out);
      });
  return Start(std::move(batch));
}

Work ProcessGroup::allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  Batch batch(c10d::OpType::ALLGATHER, "all_gather", "tpu:all_gather", options.timeout);
  const at::Tensor& input = batch.Single(inputs);
  const Tensors& own = batch.OnePerRank(outputs, size_, "output");
  batch.CheckOwn(input, own[rank_]);
  Call& call = batch.Add("all_gather of " + Describe(input), Typed("all_gather", input));
  batch.Read(call, input);
  for (const at::Tensor& output : own) {
    batch.CheckSameType(output, input);
    batch.Write(call, output);
  }
  call.body = &AllGather;
  return Start(std::move(batch));
}

Work ProcessGroup::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) {
  Tensors outputs{output}, inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

Work ProcessGroup::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                       const c10d::AllgatherOptions& options) {
  Batch batch(c10d::OpType::ALLGATHER_COALESCED, "all_gather", "tpu:all_gather_coalesced", options.timeout);
  TORCH_CHECK(!inputs.empty(), "all_gather: expected a tensor, found none");
  TORCH_CHECK(outputs.size() == static_cast<size_t>(size_), batch.name, ": expected ", size_,
              " lists of output tensors, found ", outputs.size());
  batch.calls.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    Call& call = batch.Add("all_gather of " + Describe(inputs[i]), Typed("all_gather", inputs[i]));
    batch.Read(call, inputs[i]);
    for (const Tensors& list : outputs) {
      TORCH_CHECK(list.size() == inputs.size(), batch.name, ": expected lists of ", inputs.size(),
                  " output tensors, found ", list.size());
      batch.CheckSameType(list[i], inputs[i]);
      batch.Write(call, list[i]);
    }
    batch.CheckOwn(inputs[i], outputs[rank_][i]);
    call.body = &AllGather;
  }
  return Start(std::move(batch));
}

Work ProcessGroup::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                   const c10d::AllgatherOptions& options) {
  Batch batch(c10d::OpType::_ALLGATHER_BASE, "all_gather_into_tensor", "tpu:_all_gather_base", options.timeout);
  TORCH_CHECK(!inputs.empty() && outputs.size() == inputs.size(), batch.name,
              ": expected as many outputs as inputs, found ", outputs.size(), " and ", inputs.size());
  batch.calls.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_TYPE(outputs[i].scalar_type() == inputs[i].scalar_type(),
                     "output tensor must have the same type as input tensor");
    TORCH_CHECK_VALUE(outputs[i].numel() == inputs[i].numel() * size_,
                      "output tensor size must be equal to world_size times input tensor size");
    Call& call = batch.Add("all_gather of " + Describe(inputs[i]), Typed("all_gather", inputs[i]));
    batch.Read(call, inputs[i]);
    batch.Write(call, outputs[i]);
    call.body = [](Exchange& exchange, Inputs in, Outputs out) {
      return AllGather(exchange, in, Cut(out[0], exchange.size()));
    };
  }
  return Start(std::move(batch));
}

Work ProcessGroup::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  Batch batch(c10d::OpType::GATHER, "gather", "tpu:gather", options.timeout);
  const at::Tensor& input = batch.Single(inputs);
  const int root = static_cast<int>(options.rootRank);
  CheckRoot(batch.name, root, size_);
  const std::string name = "gather(dst=" + std::to_string(root) + ")";
  Call& call = batch.Add(name + " of " + Describe(input), Typed(name, input));
  batch.Read(call, input);
  if (root == rank_) {
    const Tensors& own = batch.OnePerRank(outputs, size_, "output");
    batch.CheckOwn(input, own[rank_]);
    for (const at::Tensor& output : own) {
      batch.CheckSameType(output, input);
      batch.Write(call, output);
    }
  } else {
    TORCH_CHECK(outputs.empty() || outputs[0].empty(), "requires empty output on non-root");
  }
  call.body = [root](Exchange& exchange, Inputs in, Outputs out) { return Gather(exchange, root, in, out); };
  return Start(std::move(batch));
}

Work ProcessGroup::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) {
  Batch batch(c10d::OpType::SCATTER, "scatter", "tpu:scatter", options.timeout);
  const at::Tensor& output = batch.Single(outputs);
  const int root = static_cast<int>(options.rootRank);
  CheckRoot(batch.name, root, size_);
  const std::string name = "scatter(src=" + std::to_string(root) + ")";
  Call& call = batch.Add(name + " to " + Describe(output), Typed(name, output));
  if (root == rank_) {
    const Tensors& own = batch.OnePerRank(inputs, size_, "input");
    batch.CheckOwn(own[rank_], output);
    for (const at::Tensor& input : own) {
      batch.CheckSameType(output, input);
      batch.Read(call, input);
    }
  } else {
    TORCH_CHECK(inputs.empty() || inputs[0].empty(), "requires empty input on non-root");
  }
  batch.Write(call, output);
  call.body = [root](Exchange& exchange, Inputs in, Outputs out) { return Scatter(exchange, root, in, out); };
  return Start(std::move(batch));
}

Work ProcessGroup::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                  const c10d::ReduceScatterOptions& options) {
  Batch batch(c10d::OpType::REDUCE_SCATTER, "reduce_scatter", "tpu:reduce_scatter", options.timeout);
  const at::Tensor& output = batch.Single(outputs);
  const Tensors& own = batch.OnePerRank(inputs, size_, "input");
  batch.CheckOwn(own[rank_], output);
  const ReduceOpPlan plan = PlanOf(options.reduceOp, output);
  const DType dtype = aten::ToDType(output.scalar_type());
  const std::string name = "reduce_scatter(" + plan.name + ")";
  Call& call = batch.Add(name + " to " + Describe(output), Typed(name, output));
  for (const at::Tensor& input : own) {
    batch.CheckSameType(output, input);
    batch.Read(call, input);
  }
  batch.Write(call, output);
  call.body = Premultiplied(plan, dtype, [reduction = plan.reduction, dtype](Exchange& e, Inputs in, Outputs out) {
    return ReduceScatter(e, reduction, dtype, in, out);
  });
  return Start(std::move(batch));
}

Work ProcessGroup::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                        const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output}, inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

Work ProcessGroup::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                   const c10d::ReduceScatterOptions& options) {
  Batch batch(c10d::OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_tensor", "tpu:_reduce_scatter_base", options.timeout);
  TORCH_CHECK(!inputs.empty() && outputs.size() == inputs.size(), batch.name,
              ": expected as many outputs as inputs, found ", outputs.size(), " and ", inputs.size());
  batch.calls.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_TYPE(outputs[i].scalar_type() == inputs[i].scalar_type(),
                     "input tensor must be the same type as the output tensor.");
    TORCH_CHECK_VALUE(inputs[i].numel() == outputs[i].numel() * size_,
                      "input tensor must be the same size as output size times world size");
    const ReduceOpPlan plan = PlanOf(options.reduceOp, outputs[i]);
    const DType dtype = aten::ToDType(outputs[i].scalar_type());
    const std::string name = "reduce_scatter(" + plan.name + ")";
    Call& call = batch.Add(name + " to " + Describe(outputs[i]), Typed(name, outputs[i]));
    batch.Read(call, inputs[i]);
    batch.Write(call, outputs[i]);
    call.body = Premultiplied(plan, dtype, [reduction = plan.reduction, dtype](Exchange& e, Inputs in, Outputs out) {
      return ReduceScatter(e, reduction, dtype, Cut(in[0], e.size()), out);
    });
  }
  return Start(std::move(batch));
}

Work ProcessGroup::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                                 std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) {
  Batch batch(c10d::OpType::ALLTOALL_BASE, "all_to_all_single", "tpu:all_to_all", options.timeout);
  batch.CheckSameType(output, input);
  c10d::checkSplitSizes(input_splits, input, size_);
  c10d::checkSplitSizes(output_splits, output, size_);
  Call& call =
      batch.Add("all_to_all_single of " + Describe(input) + " to " + Describe(output), Typed("all_to_all", input));
  batch.Read(call, input);
  batch.Write(call, output);
  const int64_t in_rows = input.dim() > 0 ? input.size(0) : 1, out_rows = output.dim() > 0 ? output.size(0) : 1;
  call.body = [output_splits, input_splits, in_rows, out_rows](Exchange& e, Inputs in, Outputs out) {
    return AllToAll(e, CutRows(in[0], input_splits, in_rows, e.size()),
                    CutRows(out[0], output_splits, out_rows, e.size()));
  };
  return Start(std::move(batch));
}

Work ProcessGroup::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  Batch batch(c10d::OpType::ALLTOALL, "all_to_all", "tpu:all_to_all", options.timeout);
  TORCH_CHECK(inputs.size() == static_cast<size_t>(size_) && outputs.size() == static_cast<size_t>(size_), batch.name,
              ": expected ", size_, " input and output tensors, found ", inputs.size(), " and ", outputs.size());
  batch.CheckOwn(inputs[rank_], outputs[rank_]);
  Call& call = batch.Add("all_to_all of " + Describe(inputs[0]) + ", ...", Typed("all_to_all", inputs[0]));
  for (const at::Tensor& input : inputs) {
    batch.CheckSameType(inputs[0], input);
    batch.Read(call, input);
  }
  for (const at::Tensor& output : outputs) {
    batch.CheckSameType(inputs[0], output);
    batch.Write(call, output);
  }
  call.body = &AllToAll;
  return Start(std::move(batch));
}

}  // namespace tpu::distributed
