#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ScalarOps.h>
#include <ATen/native/TypeProperties.h>

#include <algorithm>
#include <mutex>
#include <numeric>
#include <string_view>

#include "aten/decomposition.h"
#include "aten/errors.h"
#include "aten/functional_form.h"
#include "aten/kernel.h"
#include "aten/lowered_op.h"
#include "aten/meta.h"
#include "aten/refusal.h"
#include "aten/tensor.h"
#include "base/phase.h"
#include "lowering/refused_argument.h"
#include "runtime/recorder.h"

namespace tpu::aten {
namespace {

using c10::IValue;

std::vector<at::Tensor> TensorsOf(const IValue& value) {
  if (value.isTensor()) return {value.toTensor()};
  if (value.isTensorList()) return value.toTensorVector();
  return {};
}

OutputSpec SpecOf(const at::Tensor& meta) {
  OutputSpec spec{meta.scalar_type(), meta.sizes().vec(), meta.strides().vec(), meta.is_contiguous()};
  if (spec.contiguous) spec.strides = hlo::ContiguousStrides(spec.sizes);
  return spec;
}

// Whether a `bool[n]` argument for n results (output_mask, grad_input_mask) asks for result `r`. Some meta kernels do not
// look at it.
bool IsWanted(const Call& call, const c10::FunctionSchema& schema, size_t r) {
  for (size_t a = 0; a < schema.arguments().size(); ++a) {
    const bool is_mask =
        schema.arguments()[a].N() == static_cast<int32_t>(schema.returns().size()) && call.arguments[a].isBoolList();
    if (is_mask && !call.arguments[a].toBoolList().get(r)) return false;
  }
  return true;
}

void AddReturns(const Call& call, const c10::FunctionSchema& schema, c10::ArrayRef<IValue> returns, Entry& entry,
                std::vector<bool>* defined) {
  const SchemaPlan& plan = *call.plan;
  using Kind = Entry::Return::Kind;
  for (size_t r = 0; r < plan.returns.size(); ++r) {
    if (plan.returns[r] >= 0) {
      entry.returns.push_back({Kind::kArgument, plan.returns[r], 0, {}});
      continue;
    }
    const IValue& value = returns[r];
    const int first = static_cast<int>(entry.outputs.size());
    if (value.isTensorList()) {
      for (const at::Tensor& t : value.toTensorVector()) {
        entry.outputs.push_back(SpecOf(t));
        defined->push_back(true);
      }
      entry.returns.push_back({Kind::kList, first, static_cast<int>(entry.outputs.size()) - first, {}});
    } else if (value.isTensor() && value.toTensor().defined() && IsWanted(call, schema, r)) {
      entry.outputs.push_back(SpecOf(value.toTensor()));
      entry.returns.push_back({Kind::kTensor, first, 0, {}});
      defined->push_back(true);
    } else if (value.isInt() || value.isDouble() || value.isBool()) {
      entry.returns.push_back({Kind::kConstant, 0, 0, value});
      defined->push_back(false);
    } else {
      TORCH_CHECK_NOT_IMPLEMENTED(value.isTensor() || value.isNone(), plan.name, ": returns of type ", value.tagKind(),
                                  " are not supported on tpu");
      entry.returns.push_back({Kind::kUndefined, 0, 0, {}});
      defined->push_back(false);
    }
  }
}

// A floating scalar is float32 data unless something in the call is double; complex alike.
bool UsesDouble(const Call& call, const MetaResult* meta) {
  const auto is_double = [](c10::ScalarType t) {
    return t == c10::ScalarType::Double || t == c10::ScalarType::ComplexDouble;
  };
  for (const TensorOperand& operand : call.tensors) {
    if (is_double(operand.tensor->scalar_type())) return true;
  }
  if (meta) {
    for (const IValue& value : meta->returns) {
      for (const at::Tensor& t : TensorsOf(value)) {
        if (t.defined() && is_double(t.scalar_type())) return true;
      }
    }
  }
  return false;
}

DType ScalarOperandType(const ScalarOperand& scalar, bool use_double) {
  if (scalar.value.isComplex()) return use_double ? DType::kC128 : DType::kC64;
  if (scalar.value.isFloatingPoint()) return use_double ? DType::kF64 : DType::kF32;
  if (scalar.value.isBoolean()) return DType::kBool;
  return DType::kI64;
}

void GroupScalars(const Call& call, bool use_double, Entry& entry) {
  for (int i = 0; i < static_cast<int>(call.scalars.size());) {
    const ScalarOperand& scalar = call.scalars[i];
    const DType dtype = ScalarOperandType(scalar, use_double);
    int count = 1;
    const bool list = call.plan->arguments[scalar.argument].role == Role::kScalarList;
    if (list) {
      while (i + count < static_cast<int>(call.scalars.size()) && call.scalars[i + count].argument == scalar.argument &&
             ScalarOperandType(call.scalars[i + count], use_double) == dtype) {
        ++count;
      }
    }
    // The usual list (a step's bias corrections) is one number for all tensors: as one parameter it leaves alike what is
    // computed for alike tensors, so that XLA compiles that once and not once for each place in an array.
    const bool whole = count == static_cast<int>(call.OperandsOf(scalar.argument).size());
    const bool one = !list || (whole && AreEqual(c10::ArrayRef<ScalarOperand>(call.scalars).slice(i, count)));
    hlo::Ints dims = one ? hlo::Ints{} : hlo::Ints{count};
    entry.scalar_groups.push_back(
        {i, count, list, std::make_shared<runtime::Type>(runtime::Type{dtype, std::move(dims)})});
    i += count;
  }
}

// The common type of all of a pointwise op's operands, as TensorIterator computes it.
DType CommonType(const Call& call, c10::ArrayRef<Operand> operands, std::optional<DType> result) {
  at::native::ResultTypeState state = {};
  for (const Operand& operand : operands) {
    if (operand.kind == Operand::kTensor) {
      state = at::native::update_result_type_state(*call.tensors[operand.index].tensor, state);
    } else if (operand.kind == Operand::kScalar) {
      const ScalarOperand& scalar = call.scalars[operand.index];
      const IValue& argument = call.arguments[scalar.argument];
      // A Scalar argument, or a 0-dim CPU tensor, which may or may not be a wrapped number.
      const at::Tensor& tensor =
          argument.isTensor() ? argument.toTensor() : at::native::wrapped_scalar_tensor(scalar.value);
      state = at::native::update_result_type_state(tensor, state);
    }
  }
  const DType common = ToDType(at::native::result_type(state));
  if (result && (IsFloat(*result) || IsComplex(*result)) && (IsInteger(common) || IsBool(common))) return *result;
  return common;
}

// The dims that the Value of a tensor with this geometry has: its sizes in memory order if it is dense, else flat.
hlo::Ints StorageDims(c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset, int64_t storage_numel) {
  const hlo::View view{sizes.vec(), strides.vec(), offset};
  if (offset != 0 || !hlo::CoversAll(view, storage_numel)) return {storage_numel};
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  if (hlo::IsContiguous(view)) return sizes.vec();
  hlo::Ints dims;
  for (size_t i : order) dims.push_back(sizes[i]);
  return dims;
}

class EntryBuilder {
 public:
  EntryBuilder(const c10::OperatorHandle& op, const SchemaPlan& plan, const Call& call)
      : op_(op), plan_(plan), call_(call) {}

  std::unique_ptr<Entry> Build() {
    if (!(plan_.match.lowering->flags & lowering::kOwnShape)) meta_ = RunMeta(op_, call_.arguments);
    auto lowered = std::make_shared<LoweredOp>();
    if (meta_) {
      entry_->warnings = std::move(meta_->warnings);
      AddReturns(call_, op_.schema(), meta_->returns, *entry_, &lowered->result_defined);
    } else {
      for (int r : plan_.returns) {
        if (r >= 0) entry_->returns.push_back({Entry::Return::Kind::kArgument, r, 0, {}});
      }
    }
    GroupScalars(call_, UsesDouble(call_, meta_ ? &*meta_ : nullptr), *entry_);
    AddInputs(*lowered);
    AddWrites(*lowered);
    if (plan_.match.lowering->flags & lowering::kNumbersFit) entry_->holds_numbers = ResultType();
    AddCalls(*lowered);
    for (const OutputSpec& spec : entry_->outputs) {
      const int64_t numel = at::detail::computeStorageNbytes(spec.sizes, spec.strides, 1);
      lowered->outputs.push_back(
          {{spec.sizes, spec.strides, 0}, ToDType(spec.dtype), StorageDims(spec.sizes, spec.strides, 0, numel)});
    }
    lowered->infer_outputs = !meta_;
    std::vector<std::pair<int, int>> replaces;
    for (size_t w = 0; w < lowered->writes.size(); ++w) {
      if (lowered->writes[w].base_input >= 0)
        replaces.emplace_back(lowered->writes[w].base_input, static_cast<int>(entry_->outputs.size() + w));
    }
    entry_->op = std::make_shared<runtime::Op>(
        plan_.name,
        [lowered](hlo::Builder& b, std::span<const hlo::Value> inputs, hlo::Value rng) {
          return lowered->Emit(b, inputs, rng);
        },
        std::move(input_types_), replaces, runtime::CurrentMode() == runtime::Mode::kDebug);
    FinishInferred(*lowered);
    return std::move(entry_);
  }

 private:
  void AddInputs(LoweredOp& lowered) {
    int next = 0;
    for (const TensorOperand& operand : call_.tensors) {
      const at::Tensor& t = *operand.tensor;
      LoweredOp::Tensor tensor{ViewOf(t), ToDType(t.scalar_type()), -1, operand.slot};
      if (operand.value) {
        tensor.input = next++;
        input_types_.push_back(operand.value->type_ptr());
      }
      lowered.tensors.push_back(std::move(tensor));
    }
    lowered.defaults.resize(plan_.arguments.size());
    for (size_t a = 0; a < plan_.arguments.size(); ++a) {
      if (plan_.arguments[a].default_scalar) lowered.defaults[a] = {plan_.arguments[a].default_scalar->toLong()};
    }
    lowered.scalars.resize(call_.scalars.size());
    for (const Entry::ScalarGroup& group : entry_->scalar_groups) {
      for (int i = 0; i < group.count; ++i)
        lowered.scalars[group.first + i] = {next, group.type->dims.empty() ? -1 : i};
      input_types_.push_back(group.type);
      ++next;
    }
  }

  c10::ScalarType ResultType() const {
    if (!entry_->writes.empty()) return call_.tensors[entry_->writes[0]].tensor->scalar_type();
    return entry_->outputs.at(0).dtype;
  }

  void CheckExpanded(const at::Tensor& written) {
    const uint32_t flags = plan_.match.lowering->flags;
    if (!(flags & (lowering::kExpanded | lowering::kExpandedWarns))) return at::assert_no_internal_overlap(written);
    if (!(flags & lowering::kExpandedWarns) || at::has_internal_overlap(written) != at::MemOverlap::Yes) return;
    entry_->warnings.emplace_back(
        c10::Warning::UserWarning(), c10::SourceLocation{__func__, __FILE__, __LINE__},
        c10::str("Use of ", op_.schema().name().substr(6),
                 " on expanded tensors is deprecated. Please clone() the tensor before performing this operation. This "
                 "also applies to advanced indexing e.g. tensor[mask] = scalar"),
        /*verbatim=*/false);
  }

  // The result would depend on the order of reads and writes. (Here it would not, but a program that runs elsewhere cannot
  // mean it.)
  void CheckOverlap(int written) const {
    const uint32_t flags = plan_.match.lowering->flags;
    const bool nothing = flags & lowering::kSharesNothing;
    if (plan_.match.foreach || !(nothing || flags & (lowering::kPointwise | lowering::kSamePlaces))) return;
    for (const TensorOperand& other : call_.tensors) {
      if (other.slot != call_.tensors[written].slot || plan_.arguments[other.argument].mutated) continue;
      const at::Tensor& target = *call_.tensors[written].tensor;
      nothing ? at::assert_no_overlap(target, *other.tensor) : at::assert_no_partial_overlap(target, *other.tensor);
    }
  }

  void AddWrite(LoweredOp& lowered, int operand, const at::Tensor* meta) {
    const at::Tensor& t = *call_.tensors[operand].tensor;
    CheckExpanded(t);
    CheckOverlap(operand);
    const DType dtype = ToDType(t.scalar_type());
    LoweredOp::Write write;
    write.view = ViewOf(t);
    write.dtype = dtype;
    write.base_input = lowered.tensors[operand].input;
    write.slot = call_.tensors[operand].slot;
    int64_t storage_numel = static_cast<int64_t>(SlotOf(t).size_bytes() / t.itemsize());
    if (meta && meta->sizes() != t.sizes()) {
      CheckMayResize(op_, call_.tensors[operand].argument, t, meta->sizes());
      entry_->resizes.push_back({operand, meta->sizes().vec(), meta->strides().vec()});
      write.view = {meta->sizes().vec(), meta->strides().vec(), t.storage_offset()};
      storage_numel = std::max(storage_numel, hlo::Extent(write.view));
    }
    write.dims = StorageDims(write.view.sizes, write.view.strides, write.view.offset, storage_numel);
    if (const runtime::ValuePtr& base = call_.tensors[operand].value;
        base && write.dims.size() == 1 && hlo::NumElements(base->type().dims) == storage_numel &&
        base->type().dtype == dtype) {
      write.dims = base->type().dims;
    }
    entry_->writes.push_back(operand);
    lowered.writes.push_back(std::move(write));
  }

  void AddWrites(LoweredOp& lowered) {
    for (size_t a = 0; a < plan_.arguments.size(); ++a) {
      if (!plan_.arguments[a].mutated) continue;
      const auto operands = call_.OperandsOf(static_cast<int>(a));
      std::vector<at::Tensor> metas;
      if (meta_) metas = TensorsOf(meta_->arguments[a]);
      for (size_t i = 0; i < operands.size(); ++i) {
        if (operands[i].kind == Operand::kNone) continue;
        TORCH_CHECK(operands[i].kind == Operand::kTensor, plan_.name,
                    ": expected a tpu tensor to write to, found a CPU scalar tensor");
        AddWrite(lowered, operands[i].index, meta_ ? &metas.at(i) : nullptr);
      }
    }
    // native_batch_norm writes its running statistics without saying so in its schema.
    for (size_t a = 0; a < plan_.arguments.size(); ++a) {
      const std::string& name = op_.schema().arguments()[a].name();
      if (plan_.arguments[a].mutated || (name != "running_mean" && name != "running_var")) continue;
      const auto operands = call_.OperandsOf(static_cast<int>(a));
      if (operands.size() != 1 || operands[0].kind != Operand::kTensor) continue;
      AddWrite(lowered, operands[0].index, nullptr);
    }
  }

  void AddCalls(LoweredOp& lowered) {
    std::vector<runtime::Type> expected;  // in the order of LoweredOp's functional results
    if (meta_) {
      for (size_t r = 0; r < plan_.returns.size(); ++r) {
        if (plan_.returns[r] >= 0) continue;
        for (const at::Tensor& t : TensorsOf(meta_->returns[r])) expected.push_back(TypeOf(t));
        if (!meta_->returns[r].isTensor() && !meta_->returns[r].isTensorList()) expected.emplace_back();
      }
      for (size_t a = 0; a < plan_.arguments.size(); ++a) {
        if (!plan_.arguments[a].mutated) continue;
        for (const at::Tensor& t : TensorsOf(meta_->arguments[a])) expected.push_back(TypeOf(t));
      }
    }
    const LoweringMatch& match = plan_.match;
    int count = 1;
    if (match.foreach) count = static_cast<int>(call_.OperandsOf(0).size());
    for (int element = 0; element < count; ++element) {
      std::vector<runtime::Type> types = expected;
      if (match.foreach && meta_) types = {expected.at(element)};
      lowered.calls.push_back(MakeLoweredCall(call_, match, match.foreach ? element : -1, std::move(types)));
      LoweredCall& made = lowered.calls.back();
      if (match.lowering->flags & lowering::kPointwise) {
        made.common = CommonType(call_, made.operands,
                                 made.expected.empty() ? std::nullopt : std::optional(made.expected[0].dtype));
      }
    }
  }

  // Without a meta kernel the lowering has decided the outputs' shapes.
  void FinishInferred(LoweredOp& lowered) {
    if (meta_) return;
    const auto& types = entry_->op->outputs();
    const size_t fresh = types.size() - lowered.writes.size();
    if (plan_.returns.size() == entry_->returns.size()) return;
    using Kind = Entry::Return::Kind;
    for (size_t i = 0; i < fresh; ++i) {
      entry_->outputs.push_back(
          {ToScalarType(types[i]->dtype), types[i]->dims, hlo::ContiguousStrides(types[i]->dims), true});
    }
    if (op_.schema().returns()[0].type()->kind() == c10::TypeKind::ListType) {
      entry_->returns.push_back({Kind::kList, 0, static_cast<int>(fresh), {}});
      return;
    }
    int next = 0;
    for (size_t r = entry_->returns.size(); r < plan_.returns.size(); ++r) {
      const bool wanted = IsWanted(call_, op_.schema(), r);
      entry_->returns.push_back(wanted ? Entry::Return{Kind::kTensor, next++, 0, {}}
                                       : Entry::Return{Kind::kUndefined, 0, 0, {}});
    }
  }

  const c10::OperatorHandle& op_;
  const SchemaPlan& plan_;
  const Call& call_;
  std::unique_ptr<Entry> entry_ = std::make_unique<Entry>();
  std::optional<MetaResult> meta_;
  std::vector<runtime::TypePtr> input_types_;
};

}  // namespace

void CheckMayResize(const c10::OperatorHandle& op, int argument, const at::Tensor& tensor, c10::IntArrayRef sizes) {
  TORCH_CHECK(op.schema().arguments()[argument].kwarg_only(), "output with shape ", tensor.sizes(),
              " doesn't match the broadcast shape ", sizes);
}

namespace {

// Turns PyTorch's process-wide deterministic mode off. One at a time; another thread's call that looks just then misses
// at most an alert.
class DeterministicModeOff {
 public:
  DeterministicModeOff() : lock_(Mutex()), warn_only_(at::globalContext().deterministicAlgorithmsWarnOnly()) {
    at::globalContext().setDeterministicAlgorithms(false, false);
  }
  ~DeterministicModeOff() { at::globalContext().setDeterministicAlgorithms(true, warn_only_); }
  DeterministicModeOff(const DeterministicModeOff&) = delete;
  DeterministicModeOff& operator=(const DeterministicModeOff&) = delete;

 private:
  static std::mutex& Mutex() {
    static std::mutex mutex;
    return mutex;
  }
  std::lock_guard<std::mutex> lock_;
  const bool warn_only_;
};

bool IsAlert(const std::exception& error) {
  return at::globalContext().deterministicAlgorithms() &&
         std::string_view(error.what()).find("does not have a deterministic implementation") != std::string_view::npos;
}

}  // namespace

std::unique_ptr<Entry> BuildEntry(const c10::OperatorHandle& op, const SchemaPlan& plan, const Call& call) {
  PhaseTimer timer(Phase::kTrace);
  try {
    if (plan.match.lowering) return EntryBuilder(op, plan, call).Build();
    bool op_by_op = false;
    if (auto entry = BuildDecomposedEntry(op, call, &op_by_op)) return entry;
    auto entry = std::make_unique<Entry>();
    entry->path = op_by_op                ? Entry::Path::kOpByOp
                  : HasFunctionalForm(op) ? Entry::Path::kFunctional
                                          : Entry::Path::kHost;
    return entry;
  } catch (const lowering::RefusedArgument& error) {
    RaiseAsOnHost(op, call);
    Raise({error.code, plan.name + ": " + error.what()});
  } catch (const hlo::BuildError& error) {
    Raise({error.code, plan.name + ": " + error.what()});
  } catch (const c10::NotImplementedError&) {
    throw;
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception& error) {
    RaiseAsOnHost(op, call);
    if (!IsAlert(error)) throw;
  }
  // A meta kernel that speaks for CUDA's, where the CPU's is deterministic; so is the device's.
  DeterministicModeOff off;
  return BuildEntry(op, plan, call);
}

}  // namespace tpu::aten
