#include "aten/loop.h"

#include <unordered_set>

#include "aten/errors.h"
#include "aten/graph_op.h"
#include "aten/tensor.h"
#include "runtime/recorder.h"

namespace tpu::aten {
namespace {

using hlo::Builder;
using hlo::Ints;
using runtime::OpPtr;
using runtime::TypePtr;
using runtime::ValuePtr;
using HloValues = std::vector<hlo::Value>;

TypePtr DenseType(DType dtype, c10::IntArrayRef sizes) {
  return std::make_shared<runtime::Type>(runtime::Type{dtype, sizes.vec()});
}

// A captured function. Its op takes the arguments, dense, then the Values that it found elsewhere.
struct Region {
  OpPtr op;
  std::vector<ValuePtr> found;

  HloValues Emit(Builder& b, HloValues arguments, std::span<const hlo::Value> found_values) const {
    arguments.insert(arguments.end(), found_values.begin(), found_values.end());
    return op->emit()(b, arguments, {}).outputs;
  }
};

Region CaptureRegion(const char* name, runtime::Device& device, const LoopFunction& function,
                     const std::vector<TypePtr>& types, const std::vector<c10::ScalarType>& dtypes) {
  Region region;
  runtime::Capture capture;
  std::vector<at::Tensor> stand_ins;
  std::vector<ValuePtr> inputs;
  std::unordered_set<const runtime::Value*> known;
  for (size_t i = 0; i < types.size(); ++i) {
    stand_ins.push_back(EmptyContiguous(device, types[i]->dims, dtypes[i]));
    inputs.push_back(c10::make_intrusive<runtime::Value>(device, types[i]));
    known.insert(inputs.back().get());
    Write(stand_ins.back(), inputs.back());
  }
  std::vector<GraphResult> results;
  for (const at::Tensor& tensor : function(stand_ins)) {
    TORCH_CHECK_NOT_IMPLEMENTED(IsTpu(tensor), name, ": expected results on tpu, found one on ", tensor.device().str());
    results.push_back(DenseResult(tensor));
  }
  TORCH_CHECK_NOT_IMPLEMENTED(capture.graph.rng_words == 0, name, ": draws random numbers");
  const auto find = [&](const ValuePtr& value) {
    if (known.insert(value.get()).second) region.found.push_back(value);
  };
  for (const ValuePtr& value : capture.graph.FreeValues()) find(value);
  std::unordered_set<const runtime::Value*> made;
  for (const runtime::Node& node : capture.graph.nodes) {
    TORCH_CHECK_NOT_IMPLEMENTED(!node.rng, name, ": draws random numbers");
    for (const ValuePtr& output : node.outputs) made.insert(output.get());
  }
  for (const GraphResult& result : results) {
    if (result.value->host_bytes().empty() && !made.contains(result.value.get())) find(result.value);
  }
  inputs.insert(inputs.end(), region.found.begin(), region.found.end());
  region.op = MakeGraphOp(name, std::move(capture.graph), std::move(inputs), std::move(results), {});
  return region;
}

class LoopMaker {
 public:
  LoopMaker(const char* name, const std::vector<at::Tensor>& carried, const std::vector<at::Tensor>& slices,
            const std::vector<at::Tensor>& others)
      : name_(name), carried_(carried.size()), slices_(slices.size()) {
    TORCH_CHECK_NOT_IMPLEMENTED(runtime::Capture::Current(), name, ": outside a captured function");
    TORCH_CHECK_NOT_IMPLEMENTED(runtime::CurrentMode() != runtime::Mode::kDebug, name, ": in debug mode");
    for (const auto* list : {&carried, &slices, &others}) {
      for (const at::Tensor& tensor : *list) Add(tensor);
    }
  }

  std::vector<at::Tensor> While(const LoopFunction& condition, const LoopFunction& body) {
    const Region test = Captured(condition, types_), step = Captured(body, types_);
    TORCH_CHECK_NOT_IMPLEMENTED(test.op->outputs().size() == 1 && test.op->outputs()[0]->dtype == DType::kBool &&
                                    hlo::NumElements(test.op->outputs()[0]->dims) == 1,
                                name_, ": expected a condition that gives one bool");
    CheckCarried(step);
    const size_t carried = carried_;
    return Record({&test, &step}, [=](Builder& b, HloValues arguments, const std::vector<HloValues>& found) {
      const HloValues others(arguments.begin() + static_cast<int64_t>(carried), arguments.end());
      arguments.resize(carried);
      const auto with_others = [=](std::span<const hlo::Value> state) {
        HloValues all(state.begin(), state.end());
        all.insert(all.end(), others.begin(), others.end());
        return all;
      };
      return b.While(
          arguments,
          [&](Builder& inner, std::span<const hlo::Value> state) {
            return inner.Reshape(test.Emit(inner, with_others(state), found[0])[0], Ints{});
          },
          [&](Builder& inner, std::span<const hlo::Value> state) {
            return step.Emit(inner, with_others(state), found[1]);
          });
    });
  }

  std::vector<at::Tensor> Scan(const LoopFunction& body) {
    const int64_t turns = types_.at(carried_)->dims.at(0);
    std::vector<TypePtr> in_body = types_;
    for (size_t s = carried_; s < carried_ + slices_; ++s) {
      const Ints& dims = types_[s]->dims;
      TORCH_CHECK_NOT_IMPLEMENTED(!dims.empty() && dims[0] == turns && turns > 0, name_,
                                  ": expected slices of one length, which is not zero");
      in_body[s] = DenseType(types_[s]->dtype, c10::IntArrayRef(dims).slice(1));
    }
    const Region step = Captured(body, in_body);
    CheckCarried(step);
    const size_t carried = carried_, slices = slices_;
    return Record({&step}, [=](Builder& b, const HloValues& arguments, const std::vector<HloValues>& found) {
      const auto first_slice = static_cast<int64_t>(carried);
      HloValues state = {b.ConstInt(0, DType::kI32)};
      state.insert(state.end(), arguments.begin(), arguments.begin() + first_slice);
      for (size_t r = carried; r < step.op->outputs().size(); ++r) {
        const runtime::Type& row = *step.op->outputs()[r];
        Ints dims = row.dims;
        dims.insert(dims.begin(), turns);
        state.push_back(b.Zeros({row.dtype, dims}));
      }
      HloValues last = b.While(
          state,
          [&](Builder& inner, std::span<const hlo::Value> now) {
            return inner.Lt(now[0], inner.ConstInt(turns, DType::kI32));
          },
          [&](Builder& inner, std::span<const hlo::Value> now) {
            const auto place_in = [&](const hlo::Value& x) {
              HloValues place(x.rank(), inner.ConstInt(0, DType::kI32));
              place[0] = now[0];
              return place;
            };
            HloValues taken(now.begin() + 1, now.begin() + 1 + first_slice);
            for (size_t s = carried; s < arguments.size(); ++s) {
              hlo::Value x = arguments[s];
              if (s < carried + slices) {
                Ints dims = x.dims();
                dims[0] = 1;
                x = inner.DynamicSlice(x, place_in(x), dims);
                dims.erase(dims.begin());
                x = inner.Reshape(x, dims);
              }
              taken.push_back(x);
            }
            HloValues made = step.Emit(inner, std::move(taken), found[0]);
            HloValues next = {inner.Add(now[0], inner.ConstInt(1, DType::kI32))};
            for (size_t r = 0; r < made.size(); ++r) {
              if (r < carried) {
                next.push_back(made[r]);
                continue;
              }
              const hlo::Value rows = now[r + 1];
              next.push_back(inner.DynamicUpdateSlice(rows, inner.Unsqueeze(made[r], 0), place_in(rows)));
            }
            return next;
          });
      last.erase(last.begin());
      return last;
    });
  }

 private:
  using EmitLoop = std::function<HloValues(Builder&, HloValues, const std::vector<HloValues>&)>;

  void Add(const at::Tensor& tensor) {
    TORCH_CHECK_NOT_IMPLEMENTED(tensor.defined() && IsTpu(tensor), name_, ": expected tensors on tpu");
    runtime::Slot& slot = SlotOf(tensor);
    TORCH_CHECK_NOT_IMPLEMENTED(!device_ || device_ == &slot.device(), name_, ": expected tensors of one device");
    device_ = &slot.device();
    values_.push_back(slot.Get());
    TORCH_CHECK_NOT_IMPLEMENTED(values_.back(), name_, ": expected initialised tensors");
    views_.push_back(ViewOf(tensor));
    dtypes_.push_back(tensor.scalar_type());
    types_.push_back(DenseType(ToDType(tensor.scalar_type()), tensor.sizes()));
  }

  Region Captured(const LoopFunction& function, const std::vector<TypePtr>& types) const {
    TORCH_CHECK_NOT_IMPLEMENTED(device_, name_, ": expected tensors");
    return CaptureRegion(name_, *device_, function, types, dtypes_);
  }

  void CheckCarried(const Region& step) const {
    bool same = step.op->outputs().size() >= carried_;
    for (size_t i = 0; same && i < carried_; ++i) same = *step.op->outputs()[i] == *types_[i];
    TORCH_CHECK_NOT_IMPLEMENTED(same, name_, ": expected a body that carries the same shapes and dtypes on");
  }

  // Records the loop as one op on the tensors, read densely, and on what the regions found.
  std::vector<at::Tensor> Record(const std::vector<const Region*>& regions, const EmitLoop& loop) {
    std::vector<ValuePtr> inputs = values_;
    std::vector<size_t> counts;
    for (const Region* region : regions) {
      counts.push_back(region->found.size());
      inputs.insert(inputs.end(), region->found.begin(), region->found.end());
    }
    std::vector<TypePtr> types;
    for (const ValuePtr& input : inputs) types.push_back(input->type_ptr());
    const auto emit = [views = views_, own = types_, counts, loop](Builder& b, std::span<const hlo::Value> bound,
                                                                   hlo::Value) {
      HloValues dense;
      for (size_t i = 0; i < views.size(); ++i) dense.push_back(hlo::ReadView(b, bound[i], views[i], own[i]->dtype));
      std::vector<HloValues> found;
      auto next = bound.begin() + static_cast<int64_t>(views.size());
      for (size_t count : counts) {
        found.emplace_back(next, next + static_cast<int64_t>(count));
        next += static_cast<int64_t>(count);
      }
      return runtime::Emission{loop(b, std::move(dense), found), 0};
    };
    const auto op = std::make_shared<runtime::Op>(name_, emit, std::move(types), std::vector<std::pair<int, int>>{},
                                                  /*checks=*/false);
    const runtime::Recorded values = ValueOrRaise(runtime::Record(*device_, op, std::move(inputs), ""));
    std::vector<at::Tensor> results;
    for (const ValuePtr& value : values.values()) results.push_back(FromValue(value));
    return results;
  }

  const char* name_;
  size_t carried_, slices_;
  runtime::Device* device_ = nullptr;
  std::vector<ValuePtr> values_;
  std::vector<hlo::View> views_;
  std::vector<c10::ScalarType> dtypes_;
  std::vector<TypePtr> types_;
};

}  // namespace

std::vector<at::Tensor> RecordWhile(const LoopFunction& condition, const LoopFunction& body,
                                    const std::vector<at::Tensor>& carried, const std::vector<at::Tensor>& others) {
  try {
    return LoopMaker("while_loop", carried, {}, others).While(condition, body);
  } catch (const hlo::BuildError& error) {
    Raise({error.code, error.what()});
  }
}

std::vector<at::Tensor> RecordScan(const LoopFunction& body, const std::vector<at::Tensor>& carried,
                                   const std::vector<at::Tensor>& slices, const std::vector<at::Tensor>& others) {
  try {
    return LoopMaker("scan", carried, slices, others).Scan(body);
  } catch (const hlo::BuildError& error) {
    Raise({error.code, error.what()});
  }
}

}  // namespace tpu::aten
