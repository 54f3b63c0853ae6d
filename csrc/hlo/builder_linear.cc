// Products, convolutions, factorizations, transforms.
#include <algorithm>

#include "hlo/builder_text.h"

namespace tpu::hlo {

std::string Builder::PrecisionAttribute(std::string_view before, std::string_view element_before,
                                        std::string_view element_after, DType operands) const {
  if (precision_ == Precision::kDefault || RealOf(operands) != DType::kF32) return {};
  std::string out(before);
  for (std::string_view separator : {", ", "]"})
    out.append(element_before)
        .append(precision_ == Precision::kHigh ? "HIGH" : "HIGHEST")
        .append(element_after)
        .append(separator);
  return out;
}

Value Builder::DotGeneral(Value a, Value b, std::span<const int64_t> batch_a, std::span<const int64_t> batch_b,
                          std::span<const int64_t> contract_a, std::span<const int64_t> contract_b,
                          std::optional<DType> result) {
  DType dtype = Promote(a.dtype(), b.dtype());
  if (IsBool(dtype)) {
    Value counts = DotGeneral(Cast(a, DType::kI32), Cast(b, DType::kI32), batch_a, batch_b, contract_a, contract_b);
    return Cast(counts, result.value_or(DType::kBool));
  }
  a = Cast(a, dtype);
  b = Cast(b, dtype);
  auto wrap = [](std::span<const int64_t> dims, int64_t rank) {
    Ints out;
    for (int64_t d : dims) out.push_back(WrapDim("DotGeneral", d, rank));
    return out;
  };
  Ints ba = wrap(batch_a, a.rank()), bb = wrap(batch_b, b.rank()), ca = wrap(contract_a, a.rank()),
       cb = wrap(contract_b, b.rank());
  bool fits = ba.size() == bb.size() && ca.size() == cb.size();
  Type type{IsHalf(dtype) ? DType::kF32 : dtype, {}};
  if (result && !IsHalf(dtype)) type.dtype = *result;
  for (size_t i = 0; fits && i < ba.size(); ++i) {
    fits = a.dims()[ba[i]] == b.dims()[bb[i]];
    type.dims.push_back(a.dims()[ba[i]]);
  }
  for (size_t i = 0; fits && i < ca.size(); ++i) fits = a.dims()[ca[i]] == b.dims()[cb[i]];
  if (!fits)
    Fail("DotGeneral", "batch and contracting dimensions of equal sizes",
         ToString(a.type()) + " and " + ToString(b.type()) + " with batch " + ToString(ba) + " x " + ToString(bb) +
             ", contracting " + ToString(ca) + " x " + ToString(cb));
  auto append_free = [&](Value x, const Ints& batch, const Ints& contract) {
    for (int64_t i = 0; i < x.rank(); ++i)
      if (std::ranges::count(batch, i) + std::ranges::count(contract, i) == 0) type.dims.push_back(x.dims()[i]);
  };
  append_free(a, ba, ca);
  append_free(b, bb, cb);
  // A complex product of real operands and the like: widen first; dot_general wants its operands' kind.
  DType wanted = result.value_or(dtype);
  if (IsComplex(type.dtype) != IsComplex(dtype) || IsFloat(type.dtype) != IsFloat(dtype)) {
    type.dtype = Promote(dtype, wanted);
    a = Cast(a, type.dtype);
    b = Cast(b, type.dtype);
  }
  Value operands[] = {a, b};
  Text text(*this, "stablehlo.dot_general ");
  text.Values(operands);
  if (!ba.empty()) text << ", batching_dims = " << ba << " x " << bb;
  text << ", contracting_dims = " << ca << " x " << cb << PrecisionAttribute(", precision = [", "", "", a.dtype());
  text.Signature(operands, type);
  return Cast(Emit(std::move(text), std::move(type)), wanted);
}

Value Builder::MatMul(Value a, Value b, std::optional<DType> result) {
  if (a.rank() < 2 || b.rank() < 2)
    Fail("MatMul", "two matrices or stacks of them", ToString(a.type()) + " and " + ToString(b.type()));
  if (a.dim(-1) != b.dim(-2))
    Fail("MatMul", "inner dimensions that agree", ToString(a.type()) + " and " + ToString(b.type()));
  // One matrix on the right: its stack is the rows of one product.
  if (b.rank() == 2) return DotGeneral(a, b, {}, {}, Ints{-1}, Ints{0}, result);
  std::span<const int64_t> da = a.dims(), db = b.dims();
  Ints dims = BroadcastDims(da.first(da.size() - 2), db.first(db.size() - 2));
  auto expand = [&](Value x) {
    Ints full = dims;
    full.push_back(x.dim(-2));
    full.push_back(x.dim(-1));
    return BroadcastTo(x, full);
  };
  Ints batch(dims.size());
  for (size_t i = 0; i < batch.size(); ++i) batch[i] = static_cast<int64_t>(i);
  return DotGeneral(expand(a), expand(b), batch, batch, Ints{-1}, Ints{-2}, result);
}

namespace {

// "[b, f, 0, 1]" from {b's place, f's place, places of 0, 1}.
std::string Layout(const Ints& places, std::string_view first, std::string_view second) {
  std::vector<std::string> labels(places.size());
  for (size_t i = 0; i < places.size(); ++i)
    labels.at(WrapDim("Convolution", places[i], static_cast<int64_t>(places.size()))) = i == 0 ? std::string(first)
                                                                                        : i == 1
                                                                                            ? std::string(second)
                                                                                            : std::to_string(i - 2);
  std::string out = "[";
  for (size_t i = 0; i < labels.size(); ++i) out.append(i ? ", " : "").append(labels[i]);
  return out += ']';
}

Ints OrDefault(std::string_view what, const Ints& given, int64_t count, int64_t value) {
  if (given.empty()) return Ints(count, value);
  if (static_cast<int64_t>(given.size()) != count)
    Fail("Convolution", std::to_string(count) + " entries of " + std::string(what), ToString(given));
  return given;
}

}  // namespace

Value Builder::Convolution(Value x, Value weight, const ConvDims& dims, std::optional<DType> result) {
  int64_t rank = x.rank(), spatial = rank - 2;
  if (spatial < 0 || weight.rank() != rank)
    Fail("Convolution", "operands of one rank >= 2", ToString(x.type()) + " and " + ToString(weight.type()));
  DType dtype = Promote(x.dtype(), weight.dtype());
  DType wanted = result.value_or(dtype);
  if (IsBool(dtype)) dtype = DType::kI32;
  if (IsComplex(wanted) != IsComplex(dtype) || IsFloat(wanted) != IsFloat(dtype)) dtype = Promote(dtype, wanted);
  x = Cast(x, dtype);
  weight = Cast(weight, dtype);

  Ints natural(rank);
  for (int64_t i = 0; i < rank; ++i) natural[i] = i;
  auto layout = [&](std::string_view what, const Ints& given) {
    return given.empty() ? natural : OrDefault(what, given, rank, 0);
  };
  Ints lhs = layout("lhs_layout", dims.lhs_layout), rhs = layout("rhs_layout", dims.rhs_layout),
       out = layout("out_layout", dims.out_layout);
  Ints strides = OrDefault("strides", dims.strides, spatial, 1),
       low = OrDefault("padding_low", dims.padding_low, spatial, 0),
       high = OrDefault("padding_high", dims.padding_high, spatial, 0),
       lhs_dilation = OrDefault("lhs_dilation", dims.lhs_dilation, spatial, 1),
       rhs_dilation = OrDefault("rhs_dilation", dims.rhs_dilation, spatial, 1);
  if (!dims.reversal.empty() && static_cast<int64_t>(dims.reversal.size()) != spatial)
    Fail("Convolution", std::to_string(spatial) + " entries of reversal", std::to_string(dims.reversal.size()));

  std::string names = Layout(lhs, "b", "f") + 'x' + Layout(rhs, "o", "i") + "->" + Layout(out, "b", "f");
  int64_t groups = dims.feature_groups, batch_groups = dims.batch_groups;
  int64_t batch = x.dim(lhs[0]), features = x.dim(lhs[1]), outputs = weight.dim(rhs[0]), inputs = weight.dim(rhs[1]);
  if (groups < 1 || batch_groups < 1 || features != inputs * groups || outputs % groups || outputs % batch_groups ||
      batch % batch_groups)
    Fail("Convolution",
         "features that fit " + std::to_string(groups) + " feature and " + std::to_string(batch_groups) +
             " batch groups",
         ToString(x.type()) + " and " + ToString(weight.type()) + " as " + names);
  Type type{IsHalf(dtype)                                               ? DType::kF32
            : IsFloat(wanted) || IsComplex(wanted) || IsInteger(wanted) ? wanted
                                                                        : dtype,
            Ints(rank)};
  auto place = [rank](int64_t d) { return WrapDim("Convolution", d, rank); };
  type.dims[place(out[0])] = batch / batch_groups;
  type.dims[place(out[1])] = outputs;
  for (int64_t i = 0; i < spatial; ++i) {
    int64_t size = x.dim(lhs[i + 2]), window = weight.dim(rhs[i + 2]);
    int64_t padded = (size == 0 ? 0 : (size - 1) * lhs_dilation[i] + 1) + low[i] + high[i];
    int64_t reach = window == 0 ? 0 : (window - 1) * rhs_dilation[i] + 1;
    type.dims[place(out[i + 2])] = padded < reach ? 0 : (padded - reach) / strides[i] + 1;
  }

  Value operands[] = {x, weight};
  Text text(*this, "stablehlo.convolution(");
  text.Values(operands) << ") dim_numbers = " << names << ", window = {";
  if (spatial) {
    (text << "stride = " << strides << ", pad = ").Pairs(low, high)
        << ", lhs_dilate = " << lhs_dilation << ", rhs_dilate = " << rhs_dilation;
    if (std::ranges::count(dims.reversal, true)) {
      text << ", reverse = [";
      for (int64_t i = 0; i < spatial; ++i) text << (i ? ", " : "") << static_cast<bool>(dims.reversal[i]);
      text << ']';
    }
  }
  text << "} {batch_group_count = " << batch_groups << " : i64, feature_group_count = " << groups << " : i64"
       << PrecisionAttribute(", precision_config = [", "#stablehlo<precision ", ">", dtype) << '}';
  text.Signature(operands, type);
  return Cast(Emit(std::move(text), std::move(type)), wanted);
}

Value Builder::Cholesky(Value x, bool lower) {
  if (x.rank() < 2 || x.dim(-1) != x.dim(-2)) Fail("Cholesky", "square matrices", ToString(x.type()));
  Type type = x.type();
  Text text(*this, "\"stablehlo.cholesky\"(");
  text << x << ") <{lower = " << lower << "}>";
  text.Signature(std::span(&x, 1), type);
  return Emit(std::move(text), std::move(type));
}

Value Builder::TriangularSolve(Value a, Value b, bool left_side, bool lower, bool unit_diagonal,
                               std::string_view transpose) {
  if (a.rank() < 2 || a.rank() != b.rank() || a.dim(-1) != a.dim(-2) || b.dim(left_side ? -2 : -1) != a.dim(-1))
    Fail("TriangularSolve", "square matrices and right-hand sides of their size and rank",
         ToString(a.type()) + " and " + ToString(b.type()));
  if (transpose != "NO_TRANSPOSE" && transpose != "TRANSPOSE" && transpose != "ADJOINT")
    Fail("TriangularSolve", "NO_TRANSPOSE, TRANSPOSE or ADJOINT", transpose);
  DType dtype = Promote(a.dtype(), b.dtype());
  Value operands[] = {Cast(a, dtype), Cast(b, dtype)};
  Type type{dtype, b.dims()};
  Text text(*this, "\"stablehlo.triangular_solve\"(");
  text.Values(operands) << ") <{left_side = " << left_side << ", lower = " << lower
                        << ", transpose_a = #stablehlo<transpose " << transpose
                        << ">, unit_diagonal = " << unit_diagonal << "}>";
  text.Signature(operands, type);
  return Emit(std::move(text), std::move(type));
}

Value Builder::Fft(Value x, std::string_view kind, std::span<const int64_t> length) {
  auto count = static_cast<int64_t>(length.size());
  if (count < 1 || count > x.rank())
    Fail("Fft", "between one and " + std::to_string(x.rank()) + " lengths", ToString(length));
  bool real_in = kind == "RFFT", real_out = kind == "IRFFT";
  if (!real_in && !real_out && kind != "FFT" && kind != "IFFT") Fail("Fft", "FFT, IFFT, RFFT or IRFFT", kind);
  if (real_in ? x.dtype() != DType::kF32 && x.dtype() != DType::kF64 : !IsComplex(x.dtype()))
    Fail("Fft", real_in ? "a float32 or float64 operand" : "a complex operand", ToString(x.type()));
  Type type = x.type();
  for (int64_t i = 0; i < count; ++i) {
    int64_t& size = type.dims[x.rank() - count + i];
    bool halved = real_out && i + 1 == count;
    if (size != (halved ? length[i] / 2 + 1 : length[i]))
      Fail("Fft", "dimensions that match lengths " + ToString(length), ToString(x.type()));
  }
  if (real_in) type = {ComplexOf(x.dtype()), type.dims};
  if (real_out) type = {RealOf(x.dtype()), type.dims};
  if (real_in) type.dims.back() = length.back() / 2 + 1;
  if (real_out) type.dims.back() = length.back();
  Text text(*this, "stablehlo.fft ");
  text << x << ", type = " << kind << ", length = " << length;
  text.Signature(std::span(&x, 1), type);
  return Emit(std::move(text), std::move(type));
}

}  // namespace tpu::hlo
