#include "aten/graph_capture.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "aten/call.h"
#include "aten/copy.h"
#include "aten/graph_op.h"
#include "aten/guard.h"
#include "aten/meta.h"
#include "runtime/recorder.h"

namespace tpu::aten {

using c10::IValue;
using runtime::ValuePtr;
using StandIns = CompiledGraph::StandIns;
using Values = CompiledGraph::Values;

namespace {

constexpr uint64_t kHostTensor = 100, kNumber = 101, kSymbolic = 102;

}  // namespace

GraphArguments::GraphArguments(runtime::Device& device, StandIns stand_ins, const Values& arguments,
                               const std::vector<bool>& symbolic)
    : device_(device) {
  key.Add(static_cast<uint64_t>(runtime::CurrentMode() == runtime::Mode::kDebug) |
          static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()) << 8);
  values.resize(arguments.size());
  first.resize(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    first[i] = static_cast<int>(i);
    const IValue& argument = arguments[i];
    const bool changes = i < symbolic.size() && symbolic[i];
    if (argument.isTensor() && argument.toTensor().defined()) {
      const at::Tensor& tensor = argument.toTensor();
      IsTpu(tensor) ? ReadTensor(tensor, i, changes) : ReadHostTensor(tensor, stand_ins, i);
    } else if (changes) {
      key.Add(kSymbolic);
    } else {
      ReadNumber(argument);
    }
  }
  FindShared();
}

void GraphArguments::ReadTensor(const at::Tensor& tensor, size_t i, bool symbolic) {
  runtime::Slot& slot = SlotOf(tensor);
  TORCH_CHECK_NOT_IMPLEMENTED(&slot.device() == &device_, "a compiled graph: expected tensors on tpu:", device_.index(),
                              ", found one on tpu:", slot.device().index(),
                              ". Compile what runs on one device at a time.");
  slots_.emplace_back(&slot, static_cast<int>(i));
  if (symbolic) return key.Add(kSymbolic | static_cast<uint64_t>(tensor.scalar_type()) << 8);
  values[i] = slot.Get();
  AddTensorToKey(key, tensor, values[i].get(), slot, /*storage_size=*/true);
}

void GraphArguments::ReadHostTensor(const at::Tensor& tensor, StandIns stand_ins, size_t i) {
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.device().is_cpu() && tensor.layout() == c10::Layout::Strided,
                              "a compiled graph: expected dense tensors on tpu or cpu, found one on ",
                              tensor.device().str(), " of layout ", tensor.layout());
  key.Add(kHostTensor | static_cast<uint64_t>(tensor.scalar_type()) << 8 |
          uint64_t{tensor.unsafeGetTensorImpl()->is_wrapped_number()} << 32);
  key.AddInts(tensor.sizes());
  key.AddInts(tensor.strides());
  if (stand_ins == StandIns::kPlaceholders)
    values[i] = Upload(device_, tensor.resolve_conj().resolve_neg().contiguous(), false);
}

void GraphArguments::ReadNumber(const IValue& value) {
  if (value.isTensor() || value.isNone() || value.isGenerator()) return key.Add(kNumber | value.isGenerator());
  TORCH_CHECK_NOT_IMPLEMENTED(value.isInt() || value.isBool() || value.isDouble(),
                              "a compiled graph: an argument of type ", value.tagKind(), " is not supported on tpu");
  key.Add(kNumber | static_cast<uint64_t>(value.isInt() ? 1 : value.isBool() ? 2 : 3) << 8);
  if (value.isDouble()) return key.AddDouble(value.toDouble());
  key.Add(value.isInt() ? static_cast<uint64_t>(value.toInt()) : value.toBool());
}

void GraphArguments::FindShared() {
  std::sort(slots_.begin(), slots_.end());
  bool shared = false;
  for (size_t i = 1; i < slots_.size(); ++i) {
    if (slots_[i].first != slots_[i - 1].first) continue;
    first[slots_[i].second] = first[slots_[i - 1].second];
    shared = true;
  }
  if (!shared) return;
  for (int f : first) key.Add(static_cast<uint64_t>(f));
}

namespace {

at::Tensor WithGeometry(at::Tensor tensor, const hlo::View& view) {
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(view.sizes, view.strides, view.offset);
  if (view.conjugate) tensor._set_conj(true);
  if (view.negative) tensor._set_neg(true);
  return tensor;
}

}  // namespace

Values ResultsOf(const std::vector<CapturedGraph::Result>& captured, const Values& arguments,
                 const std::vector<c10::Storage>& storages, const std::vector<bool>& host_results) {
  Values results;
  results.reserve(captured.size());
  for (const CapturedGraph::Result& result : captured) {
    switch (result.kind) {
      case CapturedGraph::Result::Kind::kConstant:
        results.push_back(result.constant.isTensor() && result.constant.toTensor().defined()
                              ? IValue(result.constant.toTensor().clone())
                              : result.constant);
        break;
      case CapturedGraph::Result::Kind::kArgument: results.push_back(arguments[result.index]); break;
      case CapturedGraph::Result::Kind::kAlias: {
        const at::Tensor& argument = arguments[result.index].toTensor();
        results.emplace_back(IsTpu(argument)
                                 ? WithGeometry(TensorOver(argument.storage(), result.dtype), result.view)
                                 : argument.as_strided(result.view.sizes, result.view.strides, result.view.offset));
        break;
      }
      case CapturedGraph::Result::Kind::kNew:
        results.emplace_back(WithGeometry(TensorOver(storages[result.index], result.dtype), result.view));
        break;
    }
    const size_t i = results.size() - 1;
    if (i < host_results.size() && host_results[i] && IsTpu(results[i].toTensor()))
      results[i] = results[i].toTensor().cpu();
  }
  return results;
}

namespace {

// The generators that the function being captured by this thread may draw from.
using RandomSources = std::unordered_map<const c10::GeneratorImpl*, runtime::Capture::RandomSource>;
thread_local RandomSources* random_sources = nullptr;

class OfferSources {
 public:
  explicit OfferSources(RandomSources& sources) : outer_(random_sources) { random_sources = &sources; }
  ~OfferSources() { random_sources = outer_; }
  OfferSources(const OfferSources&) = delete;
  OfferSources& operator=(const OfferSources&) = delete;

 private:
  RandomSources* outer_;
};

}  // namespace

void CompiledGraph::DrawFrom(const std::optional<at::Generator>& generator) {
  runtime::Capture* capture = runtime::Capture::Current();
  TORCH_CHECK(capture && random_sources, "a compiled graph: random numbers can be redirected under capture only");
  capture->random = nullptr;
  if (!generator) return;
  const auto it = random_sources->find(generator->unsafeGetGeneratorImpl());
  TORCH_CHECK_NOT_IMPLEMENTED(it != random_sources->end(),
                              "a compiled graph: draws from a generator that is none of its arguments");
  capture->random = &it->second;
}

namespace {

class GraphBuilder {
 public:
  GraphBuilder(const std::string& name, runtime::Device& device, StandIns stand_ins, const Values& arguments,
               const GraphArguments& reading)
      : name_(name), device_(device), kind_(stand_ins), arguments_(arguments), reading_(reading) {}

  std::unique_ptr<CapturedGraph> Build(const CompiledGraph::Function& function) {
    std::optional<BelowAutograd> below;
    if (kind_ == StandIns::kPlaceholders) below.emplace();
    runtime::Capture capture;
    capture.find_lines = kind_ == StandIns::kArguments;
    OfferSources offer(sources_);
    MakeStandIns();
    const Values results = function(stand_ins_);
    for (const IValue& result : results) AddResult(result);
    AddWrites();
    CheckWrites(capture);
    AddInputs(capture.graph);
    if (!results_.empty()) {
      captured_->op = MakeGraphOp(name_, std::move(capture.graph), inputs_, std::move(results_), replaces_);
    }
    return std::move(captured_);
  }

 private:
  using Result = CapturedGraph::Result;

  void MakeStandIns() {
    values_.resize(arguments_.size());
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const ValuePtr& value = reading_.values[i];
      if (value && reading_.first[i] == static_cast<int>(i)) {
        values_[i] = c10::make_intrusive<runtime::Value>(device_, value->type_ptr());
      }
      stand_ins_.push_back(StandIn(i));
      if (arguments_[i].isGenerator()) {
        auto state = c10::make_intrusive<runtime::Value>(device_, runtime::RngStateType());
        sources_[arguments_[i].toGenerator().unsafeGetGeneratorImpl()] = {std::move(state), 0};
      }
      if (!IsTensor(stand_ins_.back())) continue;
      const at::Tensor& tensor = stand_ins_.back().toTensor();
      if (!IsTpu(tensor)) continue;
      if (values_[i]) Write(tensor, values_[i]);
      argument_of_.emplace(tensor.storage().unsafeGetStorageImpl(), static_cast<int>(i));
    }
  }

  IValue StandIn(size_t i) const {
    const IValue& argument = arguments_[i];
    if (kind_ == StandIns::kArguments || !IsTensor(argument)) return argument;
    const at::Tensor& tensor = argument.toTensor();
    const int first = reading_.first[i];
    const at::Tensor* shares = first < static_cast<int>(i) ? &stand_ins_[first].toTensor() : nullptr;
    return PlaceholderFor(device_, IsTpu(tensor) ? tensor : tensor.contiguous(), shares);
  }

  static bool IsTensor(const IValue& value) { return value.isTensor() && value.toTensor().defined(); }

  void AddResult(const IValue& value) {
    Result result{Result::Kind::kConstant, 0, {}, c10::ScalarType::Undefined, {}};
    if (!IsTensor(value) || !IsTpu(value.toTensor())) {
      result.constant = value;
      captured_->results.push_back(std::move(result));
      return;
    }
    const at::Tensor& tensor = value.toTensor();
    TORCH_CHECK_NOT_IMPLEMENTED(&SlotOf(tensor).device() == &device_, name_,
                                ": expected results on tpu:", device_.index(),
                                ", found one on tpu:", SlotOf(tensor).device().index());
    result.dtype = tensor.scalar_type();
    result.view = ViewOf(tensor);
    const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    if (const auto it = argument_of_.find(storage); it != argument_of_.end()) {
      result.kind = Result::Kind::kAlias;
      result.index = it->second;
      for (size_t i = 0; i < stand_ins_.size(); ++i) {
        if (!IsTensor(stand_ins_[i]) || !stand_ins_[i].toTensor().is_same(tensor)) continue;
        result.kind = Result::Kind::kArgument;
        result.index = static_cast<int>(i);
        break;
      }
    } else {
      result.kind = Result::Kind::kNew;
      result.index = AddStorage(tensor);
    }
    captured_->results.push_back(std::move(result));
  }

  int AddStorage(const at::Tensor& tensor) {
    const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    const auto [it, made] = storages_.emplace(storage, static_cast<int>(captured_->storages.size()));
    if (made) {
      kept_.push_back(tensor);
      ValuePtr value = SlotOf(tensor).Get();
      captured_->storages.push_back({storage->nbytes(), value ? AddOutput(std::move(value)) : -1});
    }
    return it->second;
  }

  int AddOutput(ValuePtr value) {
    results_.push_back({std::move(value), std::nullopt, DType::kBool});
    return static_cast<int>(results_.size()) - 1;
  }

  void AddWrites() {
    for (size_t i = 0; i < stand_ins_.size(); ++i) {
      if (!IsTensor(stand_ins_[i]) || reading_.first[i] != static_cast<int>(i)) continue;
      const at::Tensor& tensor = stand_ins_[i].toTensor();
      if (!IsTpu(tensor)) continue;
      const at::Tensor& argument = arguments_[i].toTensor();
      TORCH_CHECK_NOT_IMPLEMENTED(!IsTpu(argument) || tensor.storage().nbytes() == argument.storage().nbytes(), name_,
                                  ": an argument's storage is resized, which a program cannot do");
      ValuePtr now = SlotOf(tensor).Get();
      if (!now || now == values_[i]) continue;
      written_.emplace(static_cast<int>(i), static_cast<int>(results_.size()));
      captured_->writes.emplace_back(static_cast<int>(i), AddOutput(std::move(now)));
    }
  }

  // A write to what is neither an argument nor the function's own would be lost.
  void CheckWrites(const runtime::Capture& capture) const {
    std::unordered_set<const runtime::Slot*> known;
    for (const IValue& stand_in : stand_ins_) {
      if (IsTensor(stand_in) && IsTpu(stand_in.toTensor())) known.insert(&SlotOf(stand_in.toTensor()));
    }
    for (const runtime::Capture::SlotWrite& write : capture.writes) {
      TORCH_CHECK_NOT_IMPLEMENTED(!write.slot->counted() || known.contains(write.slot), name_,
                                  ": expected writes to arguments only, found one to a tensor from outside. "
                                  "Pass it as an argument, or make it a buffer of the module.");
    }
  }

  // The op takes the Values that it reads and no others.
  void AddInputs(const runtime::Graph& graph) {
    std::unordered_set<const runtime::Value*> read, made;
    const auto add_constant = [&](const ValuePtr& value) {
      captured_->constants.push_back(value);
      if (value->held()) captured_->watched.push_back(value);
    };
    for (const runtime::Node& node : graph.nodes) {
      for (const ValuePtr& input : node.inputs) read.insert(input.get());
      for (const ValuePtr& output : node.outputs) made.insert(output.get());
    }
    for (const GraphResult& result : results_) read.insert(result.value.get());
    for (size_t i = 0; i < values_.size(); ++i) {
      if (!values_[i] || !read.contains(values_[i].get())) continue;
      if (const auto it = written_.find(static_cast<int>(i)); it != written_.end())
        replaces_.emplace_back(static_cast<int>(inputs_.size()), it->second);
      captured_->inputs.push_back(static_cast<int>(i));
      inputs_.push_back(values_[i]);
      made.insert(values_[i].get());
    }
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (!arguments_[i].isGenerator()) continue;
      const auto& source = sources_.at(arguments_[i].toGenerator().unsafeGetGeneratorImpl());
      if (source.words == 0 || !made.insert(source.state.get()).second) continue;
      captured_->generators.push_back({static_cast<int>(i), source.words});
      inputs_.push_back(source.state);
    }
    for (const ValuePtr& value : graph.FreeValues()) {
      if (made.insert(value.get()).second) add_constant(value);
    }
    for (const GraphResult& result : results_) {
      if (result.value->host_bytes().empty() && made.insert(result.value.get()).second) add_constant(result.value);
    }
    inputs_.insert(inputs_.end(), captured_->constants.begin(), captured_->constants.end());
  }

  const std::string& name_;
  runtime::Device& device_;
  StandIns kind_;
  const Values& arguments_;
  const GraphArguments& reading_;
  std::unique_ptr<CapturedGraph> captured_ = std::make_unique<CapturedGraph>();
  Values stand_ins_;
  std::vector<ValuePtr> values_;  // per argument, of the stand-ins
  std::vector<ValuePtr> inputs_;
  std::vector<GraphResult> results_;
  std::vector<std::pair<int, int>> replaces_;
  std::vector<at::Tensor> kept_;  // keeps the keys of storages_ apart
  std::unordered_map<const c10::StorageImpl*, int> argument_of_, storages_;
  std::unordered_map<int, int> written_;
  RandomSources sources_;
};

}  // namespace

std::unique_ptr<CapturedGraph> CaptureGraph(const std::string& name, runtime::Device& device, StandIns stand_ins,
                                            const CompiledGraph::Function& function, const Values& arguments,
                                            const GraphArguments& reading) {
  return GraphBuilder(name, device, stand_ins, arguments, reading).Build(function);
}

}  // namespace tpu::aten
