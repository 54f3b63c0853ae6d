#include "aten/lowered_op.h"

#include <unordered_map>

#include "aten/dtypes.h"

namespace tpu::aten {
namespace {

using c10::IValue;
using lowering::Arg;
using lowering::Kind;
using lowering::Param;
using Source = LoweredCall::Source;

// Dimensions refer to the first tensor operand.
int64_t FirstRank(const Call& call) {
  for (const Operand& operand : call.operands) {
    if (operand.kind == Operand::kTensor) return call.tensors[operand.index].tensor->dim();
    if (operand.kind == Operand::kScalar) return 0;
  }
  return 0;
}

int64_t WrapDim(const Call& call, int64_t dim) {
  const int64_t rank = std::max<int64_t>(FirstRank(call), 1);
  TORCH_CHECK_INDEX(dim >= -rank && dim < rank, "Dimension out of range (expected to be in range of [", -rank, ", ",
                    rank - 1, "], but got ", dim, ")");
  return dim < 0 ? dim + rank : dim;
}

lowering::Scalar ToScalar(const IValue& value) {
  const c10::Scalar s = value.toScalar();
  if (s.isComplex()) return {std::complex<double>(s.toComplexDouble())};
  if (s.isBoolean()) return {s.toBool()};
  if (s.isFloatingPoint()) return {s.toDouble()};
  return {s.toLong()};
}

hlo::Ints ToInts(const IValue& value) {
  if (value.isIntList()) return value.toIntVector();
  hlo::Ints ints;
  if (value.isList()) {
    for (const IValue& element : value.toListRef())
      ints.push_back(element.isBool() ? element.toBool() : element.toInt());
  } else {
    ints.push_back(value.toInt());
  }
  return ints;
}

Arg ToAttribute(const Call& call, const Param& param, const IValue& value) {
  if (value.isNone() || param.kind == Kind::kIgnore) return std::monostate();
  switch (param.kind) {
    case Kind::kDim: return WrapDim(call, value.toInt());
    case Kind::kDimList: {
      hlo::Ints dims = ToInts(value);
      for (int64_t& d : dims) d = WrapDim(call, d);
      return dims;
    }
    case Kind::kBool: return value.toBool();
    case Kind::kInt: return value.isInt() ? value.toInt() : value.toScalar().toLong();
    case Kind::kDouble: return value.isDouble() ? value.toDouble() : value.toScalar().toDouble();
    case Kind::kString: return value.toStringRef();
    case Kind::kDType: return ToDType(static_cast<c10::ScalarType>(value.toInt()));
    case Kind::kInts: return ToInts(value);
    case Kind::kDoubles: return value.toDoubleVector();
    case Kind::kScalar: return ToScalar(value);
    default: TORCH_INTERNAL_ASSERT(false, "tpu: not an attribute");
  }
}

// What slots hold after the writes so far.
using Written = std::unordered_map<int, hlo::Value>;

class CallEmitter {
 public:
  CallEmitter(hlo::Builder& b, const LoweredOp& op, const LoweredCall& call, std::span<const hlo::Value> inputs,
              const Written& written, lowering::Rng& rng)
      : b_(b), op_(op), call_(call), inputs_(inputs), written_(written), rng_(rng) {}

  lowering::Results Emit() {
    if (call_.lowering->flags & lowering::kPointwise) FindCommonShape();
    std::vector<Arg> args;
    for (const Source& source : call_.sources) args.push_back(ToArg(source));
    b_.SetExpected(call_.expected);
    return call_.lowering->emit(b_, args);
  }

 private:
  hlo::Value Raw(const Operand& operand) {
    if (operand.kind == Operand::kScalar) {
      const LoweredOp::ScalarRef& ref = op_.scalars[operand.index];
      if (ref.element < 0) return inputs_[ref.input];
      return b_.Reshape(b_.SliceDim(inputs_[ref.input], 0, ref.element, ref.element + 1), {});
    }
    if (operand.kind == Operand::kDefault)
      return op_.defaults[operand.index].ToValue(b_, call_.common.value_or(DType::kI64));
    const LoweredOp::Tensor& t = op_.tensors[operand.index];
    if (const auto it = written_.find(t.slot); it != written_.end())
      return hlo::ReadView(b_, it->second, t.view, t.dtype);
    if (t.input < 0) return b_.Full(t.view.sizes, 0.0, t.dtype);
    return hlo::ReadView(b_, inputs_[t.input], t.view, t.dtype);
  }

  hlo::Value Read(const Operand& operand) {
    hlo::Value v = Raw(operand);
    const uint32_t flags = call_.lowering->flags;
    if (call_.common) v = b_.Cast(v, KeepsPrecision(operand) ? DType::kF32 : *call_.common);
    if (!(flags & lowering::kExact) && IsHalf(v.dtype())) v = b_.Cast(v, DType::kF32);
    if (flags & lowering::kPointwise) v = b_.BroadcastTo(v, shape_);
    return v;
  }

  // In half arithmetic a number is a float32, as in PyTorch's kernels; a comparison sees it rounded to the tensor's type.
  bool KeepsPrecision(const Operand& operand) const {
    return operand.kind == Operand::kScalar && IsHalf(*call_.common) && !(call_.lowering->flags & lowering::kExact) &&
           !call_.expected.empty() && IsHalf(call_.expected[0].dtype);
  }

  void FindCommonShape() {
    for (const Operand& operand : call_.operands) {
      if (operand.kind == Operand::kTensor) shape_ = hlo::BroadcastDims(shape_, op_.tensors[operand.index].view.sizes);
    }
  }

  Arg ToArg(const Source& source) {
    switch (source.kind) {
      case Source::Kind::kOperand:
        if (source.operands.empty() || source.operands[0].kind == Operand::kNone) return std::monostate();
        return Read(source.operands[0]);
      case Source::Kind::kOperandList: {
        std::vector<hlo::Value> values;
        for (const Operand& operand : source.operands) values.push_back(Read(operand));
        return values;
      }
      case Source::Kind::kOptionalOperandList: {
        lowering::OptionalValues values;
        for (const Operand& operand : source.operands) {
          values.push_back(operand.kind == Operand::kNone ? std::nullopt : std::optional(Read(operand)));
        }
        return values;
      }
      case Source::Kind::kOne: {
        hlo::Value one = b_.Const(1.0, call_.common ? *call_.common : DType::kF32);
        if (IsHalf(one.dtype()) && !(call_.lowering->flags & lowering::kExact)) one = b_.Cast(one, DType::kF32);
        return call_.lowering->flags & lowering::kPointwise ? b_.BroadcastTo(one, shape_) : one;
      }
      case Source::Kind::kRng: return &rng_;
      case Source::Kind::kAttribute: return source.attribute;
    }
    return std::monostate();
  }

  hlo::Builder& b_;
  const LoweredOp& op_;
  const LoweredCall& call_;
  std::span<const hlo::Value> inputs_;
  const Written& written_;
  lowering::Rng& rng_;
  hlo::Ints shape_;
};

hlo::Value Conform(hlo::Builder& b, hlo::Value value, const hlo::Ints& sizes, DType dtype, const std::string& name) {
  if (value.dims() != sizes) {
    throw hlo::BuildError("the lowering of " + name + " gave " + hlo::ToString(value.type()) +
                          ", PyTorch's meta kernel says " + hlo::ToString(hlo::Type{dtype, sizes}) +
                          ". This is a bug of torchtpu.");
  }
  return b.Cast(value, dtype);
}

}  // namespace

LoweredCall MakeLoweredCall(const Call& call, const LoweringMatch& match, int element,
                            std::vector<hlo::Type> expected) {
  LoweredCall made;
  made.lowering = match.lowering;
  made.expected = std::move(expected);
  const auto& params = match.lowering->params;
  for (size_t p = 0; p < match.arguments.size(); ++p) {
    const int argument = match.arguments[p];
    Source source{Source::Kind::kAttribute, {}, std::monostate()};
    const Kind kind = params[p].kind;
    if (kind == Kind::kRng) {
      source.kind = Source::Kind::kRng;
    } else if (argument < 0) {
      if (!params[p].optional) source.kind = Source::Kind::kOne;  // the default of alpha
      if (params[p].optional) source.attribute = std::monostate();
    } else if (kind == Kind::kValue || kind == Kind::kValueList || kind == Kind::kOptionalValueList) {
      auto operands = call.OperandsOf(argument);
      const Role role = call.plan->arguments[argument].role;
      if (element >= 0 && (role == Role::kTensorList || role == Role::kScalarList))
        operands = operands.slice(element, 1);
      source.kind = kind == Kind::kValue       ? Source::Kind::kOperand
                    : kind == Kind::kValueList ? Source::Kind::kOperandList
                                               : Source::Kind::kOptionalOperandList;
      source.operands = operands.vec();
      for (const Operand& operand : operands) {
        if (operand.kind != Operand::kNone) made.operands.push_back(operand);
      }
    } else {
      source.attribute = ToAttribute(call, params[p], call.arguments[argument]);
    }
    made.sources.push_back(std::move(source));
  }
  if (match.arguments.size() < params.size()) made.sources.push_back({Source::Kind::kRng, {}, std::monostate()});
  return made;
}

runtime::Emission LoweredOp::Emit(hlo::Builder& b, std::span<const hlo::Value> inputs, hlo::Value state) const {
  lowering::Rng rng(b, state);
  lowering::Results results;
  Written written;
  runtime::Emission emission;
  const std::string& name = calls.empty() ? std::string() : calls.front().lowering->name;
  const auto write_result = [&](const Write& write, const std::optional<hlo::Value>& result) {
    std::optional<hlo::Value> base;
    if (write.base_input >= 0) base = inputs[write.base_input];
    if (const auto it = written.find(write.slot); it != written.end()) base = it->second;
    hlo::Value whole;
    if (result) {
      whole = hlo::WriteView(b, base, write.view, Conform(b, *result, write.view.sizes, write.dtype, name), write.dims);
    } else {  // left as it was (running statistics in evaluation)
      whole = base ? *base : b.Full(write.dims, 0.0, write.dtype);
    }
    written.insert_or_assign(write.slot, whole);
    emission.outputs.push_back(whole);
  };
  // An in-place foreach op writes each element before it reads the next: they may be views of one storage.
  const bool one_by_one = !infer_outputs && result_defined.empty() && calls.size() == writes.size();
  for (size_t c = 0; c < calls.size(); ++c) {
    lowering::Results r = CallEmitter(b, *this, calls[c], inputs, written, rng).Emit();
    if (one_by_one) write_result(writes[c], r.empty() ? std::nullopt : r[0]);
    results.insert(results.end(), r.begin(), r.end());
  }
  emission.rng_words = rng.used();
  if (one_by_one) return emission;

  const size_t fresh = infer_outputs ? results.size() - std::min(results.size(), writes.size()) : result_defined.size();
  size_t next = 0;
  for (size_t i = 0; i < fresh; ++i) {
    if (infer_outputs) {
      if (results[i]) emission.outputs.push_back(*results[i]);
      continue;
    }
    if (!result_defined[i]) continue;
    if (i >= results.size() || !results[i]) {
      throw hlo::BuildError("the lowering of " + name + " gave no result " + std::to_string(i) +
                            ". This is a bug of torchtpu.");
    }
    const Output& output = outputs[next++];
    hlo::Value value = Conform(b, *results[i], output.view.sizes, output.dtype, name);
    emission.outputs.push_back(hlo::WriteView(b, std::nullopt, output.view, value, output.dims));
  }
  for (size_t w = 0; w < writes.size(); ++w) {
    write_result(writes[w], fresh + w < results.size() ? results[fresh + w] : std::nullopt);
  }
  return emission;
}

}  // namespace tpu::aten
