#include "aten/bucketed_graph.h"

#include <algorithm>

#include "aten/errors.h"
#include "aten/generator.h"
#include "aten/tensor.h"
#include "runtime/padding.h"
#include "runtime/recorder.h"

namespace tpu::aten {

using c10::IValue;
using hlo::Ints;
using hlo::Polynomial;
using runtime::ValuePtr;

namespace {

Ints At(const std::vector<Polynomial>& sizes, const Ints& symbols) {
  Ints values;
  for (const Polynomial& size : sizes) values.push_back(size.At(symbols));
  return values;
}

const runtime::TypePtr& SymbolType() {
  static const auto& type = *new runtime::TypePtr(std::make_shared<runtime::Type>(runtime::Type{DType::kI64, {}}));
  return type;
}

// Its sizes in the order in which it lies in memory.
std::optional<Ints> DimsInMemory(c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  std::vector<size_t> order(sizes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  Ints dims;
  int64_t expected = 1;
  for (size_t k = order.size(); k-- > 0;) {
    const size_t i = order[k];
    if (sizes[i] != 1 && strides[i] != expected) return std::nullopt;
    expected *= sizes[i];
  }
  if (c10::IntArrayRef(strides) == c10::IntArrayRef(hlo::ContiguousStrides(sizes.vec()))) return sizes.vec();
  for (size_t i : order) dims.push_back(sizes[i]);
  return dims;
}

}  // namespace

class BucketedGraph::Maker {
 public:
  Maker(const std::string& name, runtime::Device& device, const CompiledGraph::Function& function,
        const Values& arguments, const CompiledGraph::Symbolic& symbolic, const Range& range, int attempt)
      : name_(name),
        device_(device),
        function_(function),
        arguments_(arguments),
        symbolic_(symbolic),
        range_(range),
        points_(range.low, range.high, attempt) {}

  std::unique_ptr<BucketedGraph> Make() {
    for (const std::vector<int64_t>& point : points_.points()) Sample(point);
    made_->name_ = name_;
    made_->device_ = &device_;
    made_->low_ = points_.low();
    FitGeometries();
    FitCaptured();
    if (captured_[0]->op) FitProgram();
    made_->first_ = std::move(captured_[0]);
    return std::move(made_);
  }

 private:
  template <typename Of>
  Polynomial Fit(const Of& of, const char* what) const {
    std::vector<int64_t> values;
    for (size_t k = 0; k < captured_.size(); ++k) values.push_back(of(k));
    std::optional<Polynomial> fitted = points_.Fit(values);
    if (!fitted) throw hlo::BuildError(std::string(what) + " that is no polynomial in the sizes", Code::kUnimplemented);
    return *fitted;
  }

  template <typename Of>
  std::vector<Polynomial> FitList(const Of& of, const char* what) const {
    std::vector<Polynomial> list;
    for (size_t i = 0; i < of(0).size(); ++i) {
      Require(std::all_of(captured_.begin(), captured_.end(),
                          [&](const auto& c) { return of(&c - captured_.data()).size() == of(0).size(); }),
              what);
      list.push_back(Fit([&](size_t k) { return of(k)[i]; }, what));
    }
    return list;
  }

  static void Require(bool same, const char* what) {
    if (!same) throw hlo::BuildError(std::string(what) + " differs between sizes", Code::kUnimplemented);
  }

  // Captures the function at one point, on tensors that stand for such arguments.
  void Sample(const Ints& point) {
    Values arguments = arguments_;
    auto& described = described_.emplace_back(symbolic_.describe(point));
    {
      runtime::Capture uncounted;
      for (size_t i = 0; i < arguments.size(); ++i) {
        if (!symbolic_.which[i]) continue;
        arguments[i] = arguments[i].isTensor() ? IValue(StandIn(arguments[i].toTensor(), described.at(i)))
                                               : IValue(described.at(i).number);
      }
    }
    const GraphArguments reading(device_, CompiledGraph::StandIns::kPlaceholders, arguments);
    captured_.push_back(
        CaptureGraph(name_, device_, CompiledGraph::StandIns::kPlaceholders, function_, arguments, reading));
    kept_.push_back(std::move(arguments));
    const CapturedGraph& captured = *captured_.back();
    if (!captured.op) return;
    auto b = std::make_unique<hlo::Builder>();
    b->UseComparableForms();
    std::vector<hlo::Value> parameters;
    const size_t count = captured.op->inputs().size() - (captured.op->rng_words() > 0 ? 1 : 0);
    for (size_t i = 0; i < count; ++i) parameters.push_back(b->Parameter(*captured.op->inputs()[i]));
    hlo::Value rng = b->Parameter(*runtime::RngStateType());
    emitted_.push_back(captured.op->emit()(*b, parameters, rng).outputs);
    builders_.push_back(std::move(b));
  }

  at::Tensor StandIn(const at::Tensor& like, const CompiledGraph::ArgumentAt& at) const {
    TORCH_CHECK_NOT_IMPLEMENTED(!like.is_conj() && !like.is_neg() && IsTpu(like),
                                "a tensor of changing size that is lazily conjugated, or not on the device");
    const std::optional<Ints> dims = DimsInMemory(at.sizes, at.strides);
    TORCH_CHECK_NOT_IMPLEMENTED(dims, "a tensor of changing size that has gaps or overlaps in memory");
    at::Tensor tensor = EmptyStrided(device_, at.sizes, at.strides, like.scalar_type());
    auto type = std::make_shared<runtime::Type>(runtime::Type{ToDType(like.scalar_type()), *dims});
    SlotOf(tensor).Set(c10::make_intrusive<runtime::Value>(device_, std::move(type)));
    return tensor;
  }

  void FitGeometries() {
    made_->geometries_.resize(arguments_.size());
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (!symbolic_.which[i] || !arguments_[i].isTensor()) continue;
      made_->geometries_[i] = {
          FitList([&](size_t k) -> const Ints& { return described_[k].at(i).sizes; }, "a size"),
          FitList([&](size_t k) -> const Ints& { return described_[k].at(i).strides; }, "a stride")};
    }
  }

  void FitCaptured() {
    const CapturedGraph& first = *captured_[0];
    for (const auto& other : captured_) {
      Require(!other->op == !first.op && other->inputs == first.inputs && other->constants == first.constants &&
                  other->writes == first.writes && other->storages.size() == first.storages.size() &&
                  other->results.size() == first.results.size() && other->generators.size() == first.generators.size(),
              "what the graph takes or gives");
    }
    for (size_t s = 0; s < first.storages.size(); ++s) {
      for (const auto& other : captured_) Require(other->storages[s].output == first.storages[s].output, "a result");
      made_->storages_.push_back(
          Fit([&](size_t k) { return static_cast<int64_t>(captured_[k]->storages[s].size_bytes); }, "a storage"));
    }
    for (size_t g = 0; g < first.generators.size(); ++g) {
      made_->words_.push_back(
          Fit([&](size_t k) { return captured_[k]->generators[g].words; }, "a count of random words"));
    }
    for (size_t r = 0; r < first.results.size(); ++r) FitResult(r);
  }

  void FitResult(size_t r) {
    const CapturedGraph::Result& first = captured_[0]->results[r];
    Result result{first, {}, {}, {}, {}};
    const auto at = [&](size_t k) -> const CapturedGraph::Result& { return captured_[k]->results[r]; };
    for (size_t k = 0; k < captured_.size(); ++k) {
      Require(at(k).kind == first.kind && at(k).index == first.index && at(k).dtype == first.dtype &&
                  at(k).view.conjugate == first.view.conjugate && at(k).view.negative == first.view.negative &&
                  at(k).constant.isInt() == first.constant.isInt(),
              "a result");
    }
    if (first.constant.isInt()) {
      result.number = Fit([&](size_t k) { return at(k).constant.toInt(); }, "a number");
    } else if (first.kind == CapturedGraph::Result::Kind::kConstant) {
      for (size_t k = 0; k < captured_.size(); ++k) {
        Require(first.constant.isTensor() ? at(k).constant.isTensor() && !first.constant.toTensor().defined()
                                          : at(k).constant == first.constant,
                "a result");
      }
    } else {
      result.sizes = FitList([&](size_t k) -> const Ints& { return at(k).view.sizes; }, "a result's size");
      result.strides = FitList([&](size_t k) -> const Ints& { return at(k).view.strides; }, "a result's stride");
      result.offset = Fit([&](size_t k) { return at(k).view.offset; }, "a result's offset");
    }
    made_->results_.push_back(std::move(result));
  }

  void FitProgram() {
    auto symbolic = hlo::SymbolicProgram::Fit(points_, builders_, emitted_);
    auto padded = std::make_shared<hlo::PaddedProgram>(symbolic, range_.high);
    const CapturedGraph& first = *captured_[0];
    made_->rng_words_ = Fit([&](size_t k) { return captured_[k]->op->rng_words(); }, "a count of random words");
    const size_t inputs = padded->parameters().size() - 1;  // the last is the random state
    std::vector<runtime::TypePtr> types;
    for (size_t i = 0; i < inputs; ++i) {
      made_->inputs_.push_back(padded->parameters()[i]);
      types.push_back(std::make_shared<runtime::Type>(padded->parameters()[i].type));
    }
    const size_t symbols = range_.high.size();
    for (size_t i = 0; i < symbols; ++i) types.push_back(SymbolType());
    std::vector<hlo::PaddedType> outputs;
    const int64_t words = made_->rng_words_.At(range_.high);
    auto known = std::make_shared<std::vector<hlo::PaddedType>>();
    const auto emit = [padded, inputs, words, known](hlo::Builder& b, std::span<const hlo::Value> bound,
                                                     hlo::Value rng) {
      std::vector<hlo::Value> parameters(bound.begin(), bound.begin() + static_cast<int64_t>(inputs));
      parameters.push_back(rng);
      hlo::PaddedProgram::Emission emission = padded->Emit(b, parameters, bound.subspan(inputs));
      if (known->empty()) *known = std::move(emission.types);
      return runtime::Emission{std::move(emission.values), words};
    };
    std::vector<std::pair<int, int>> replaces;
    for (const auto& replaced : first.op->replaces()) {
      if (made_->inputs_[replaced.first].is_static) replaces.push_back(replaced);
    }
    made_->op_ = std::make_shared<runtime::Op>(name_ + " in a bucket", emit, std::move(types), replaces, false);
    for (size_t r = 0; r < known->size(); ++r)
      made_->outputs_.push_back({(*known)[r], symbolic->TypeOf(symbolic->results()[r]).dims});
  }

  const std::string& name_;
  runtime::Device& device_;
  const CompiledGraph::Function& function_;
  const Values& arguments_;
  const CompiledGraph::Symbolic& symbolic_;
  const Range& range_;
  hlo::Samples points_;
  std::vector<std::vector<CompiledGraph::ArgumentAt>> described_;
  std::vector<Values> kept_;
  std::vector<std::unique_ptr<CapturedGraph>> captured_;
  std::vector<std::unique_ptr<hlo::Builder>> builders_;
  std::vector<std::vector<hlo::Value>> emitted_;
  std::unique_ptr<BucketedGraph> made_ = std::make_unique<BucketedGraph>();
};

std::unique_ptr<BucketedGraph> BucketedGraph::Build(const std::string& name, runtime::Device& device,
                                                    const CompiledGraph::Function& function, const Values& arguments,
                                                    const CompiledGraph::Symbolic& symbolic, const Range& range) {
  // A size that falls together with another of the program makes two samples differ; other samples may not.
  constexpr int kAttempts = 3;
  for (int attempt = 0;; ++attempt) {
    try {
      return Maker(name, device, function, arguments, symbolic, range, attempt).Make();
    } catch (const hlo::BuildError&) {
      if (attempt + 1 == kAttempts) throw;
    }
  }
}

bool BucketedGraph::Geometry::Fits(const at::Tensor& tensor, const Ints& symbols) const {
  if (!IsTpu(tensor) || tensor.is_conj() || tensor.is_neg() || tensor.storage_offset() != 0) return false;
  if (c10::IntArrayRef(At(sizes, symbols)) != tensor.sizes()) return false;
  for (size_t d = 0; d < strides.size(); ++d) {
    if (tensor.size(static_cast<int64_t>(d)) != 1 && strides[d].At(symbols) != tensor.stride(static_cast<int64_t>(d)))
      return false;
  }
  return SlotOf(tensor).size_bytes() == static_cast<size_t>(tensor.numel()) * tensor.itemsize();
}

ValuePtr BucketedGraph::PaddedInput(const at::Tensor& tensor, const hlo::PaddedType& type, const Ints& symbols) const {
  runtime::Slot& slot = SlotOf(tensor);
  const Ints box = At(type.box, symbols);
  if (const auto padded = slot.padded();
      padded && padded->box == box && padded->whole->type().dtype == type.type.dtype) {
    return ValueOrRaise(runtime::Resized(*padded, type.type.dims));
  }
  ValuePtr value = slot.Get();
  ValuePtr whole = ValueOrRaise(runtime::PaddedOnHost(*value, box, type.type.dims));
  slot.AddPadded({whole, box, value->type_ptr()});
  return whole;
}

void BucketedGraph::Store(const c10::StorageImpl& storage, int output, ValuePtr value, const Ints& symbols) const {
  const Output& known = outputs_[output];
  if (known.padded.is_static) return SlotOf(storage).Set(std::move(value));
  auto type = std::make_shared<runtime::Type>(runtime::Type{known.padded.type.dtype, At(known.dims, symbols)});
  SlotOf(storage).SetPadded({std::move(value), At(known.padded.box, symbols), std::move(type)});
}

std::optional<CompiledGraph::Values> BucketedGraph::Run(const Values& arguments, const GraphArguments& reading,
                                                        const Ints& symbols, const std::vector<bool>& host_results) {
  for (size_t i = 0; i < symbols.size(); ++i)
    if (symbols[i] < low_[i]) return std::nullopt;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (geometries_[i] && !geometries_[i]->Fits(arguments[i].toTensor(), symbols)) return std::nullopt;
    if (reading.first[i] == static_cast<int>(i)) continue;
    if (geometries_[i] || geometries_[reading.first[i]]) return std::nullopt;  // two views of what changes its size
  }
  std::vector<c10::Storage> storages;
  for (const Polynomial& bytes : storages_)
    storages.push_back(NewStorage(*device_, static_cast<size_t>(bytes.At(symbols))));
  if (op_) {
    std::vector<ValuePtr> inputs;
    for (int argument : first_->inputs) {
      const hlo::PaddedType& type = inputs_[inputs.size()];
      if (!type.is_static) {
        inputs.push_back(PaddedInput(arguments[argument].toTensor(), type, symbols));
      } else {
        inputs.push_back(geometries_[argument] ? SlotOf(arguments[argument].toTensor()).Get()
                                               : reading.values[argument]);
      }
    }
    for (size_t g = 0; g < words_.size(); ++g) {
      const at::Generator& generator = arguments[first_->generators[g].argument].toGenerator();
      inputs.push_back(c10::make_intrusive<runtime::Value>(
          *device_, runtime::RngStateType(),
          NextState(generator, static_cast<c10::DeviceIndex>(device_->index()), words_[g].At(symbols))));
    }
    inputs.insert(inputs.end(), first_->constants.begin(), first_->constants.end());
    for (int64_t symbol : symbols) {
      inputs.push_back(device_->HostConstant(SymbolType(), std::string(reinterpret_cast<const char*>(&symbol), 8)));
    }
    std::string rng;
    if (op_->rng_words() > 0)
      rng = NextState(std::nullopt, static_cast<c10::DeviceIndex>(device_->index()), rng_words_.At(symbols));
    const runtime::Recorded values = ValueOrRaise(runtime::Record(*device_, op_, std::move(inputs), std::move(rng)));
    for (size_t s = 0; s < storages.size(); ++s) {
      const int output = first_->storages[s].output;
      if (output >= 0) Store(*storages[s].unsafeGetStorageImpl(), output, values[output], symbols);
    }
    for (const auto& [argument, output] : first_->writes) {
      at::Tensor tensor = arguments[argument].toTensor();
      if (IsTpu(tensor)) {
        Store(*tensor.storage().unsafeGetStorageImpl(), output, values[output], symbols);
      } else {
        tensor.copy_(FromValue(values[output]).view(tensor.sizes()));
      }
    }
  }
  std::vector<CapturedGraph::Result> results;
  for (const Result& result : results_) {
    CapturedGraph::Result now = result.at_first;
    if (now.constant.isInt()) now.constant = result.number.At(symbols);
    now.view.sizes = At(result.sizes, symbols);
    now.view.strides = At(result.strides, symbols);
    now.view.offset = result.offset.At(symbols);
    results.push_back(std::move(now));
  }
  return ResultsOf(results, arguments, storages, host_results);
}

}  // namespace tpu::aten
