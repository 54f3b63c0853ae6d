// Builds one StableHLO module: values in, text out. No torch types, no PJRT.
//
// Ownership: a Builder owns its instructions; a Value is a handle into it and must not outlive it.
// Threads: one Builder, one thread.
// Shapes: binary operations and Select broadcast as NumPy does and promote element types by PyTorch's lattice.
// A malformed call (a rank or size that cannot be) throws BuildError; lowering code never catches it.
#pragma once

#include <complex>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"

namespace tpu::hlo {

using Ints = std::vector<int64_t>;

// A dimension that is known only when the program runs: "?". In exported programs alone (dynamic_program.h).
inline constexpr int64_t kDynamic = std::numeric_limits<int64_t>::min();

struct Type {
  DType dtype = DType::kF32;
  Ints dims;
  bool operator==(const Type&) const = default;
};
std::string ToString(const Type& type);  // "tensor<2x3xf32>"
int64_t NumElements(std::span<const int64_t> dims);
// Row-major strides.
Ints ContiguousStrides(std::span<const int64_t> dims);
// NumPy broadcasting; throws BuildError where the sizes disagree.
Ints BroadcastDims(std::span<const int64_t> a, std::span<const int64_t> b);
// PyTorch's promotion lattice (c10::promoteTypes).
DType Promote(DType a, DType b);

struct BuildError : std::runtime_error {
  explicit BuildError(const std::string& message, Code error = Code::kInvalidArgument)
      : std::runtime_error(message), code(error) {}
  Code code;  // which of PyTorch's exceptions it becomes
};

class Builder;
class Text;

class Value {
 public:
  Value() = default;
  Value(Builder* builder, int32_t id) : builder_(builder), id_(id) {}
  const Type& type() const;
  DType dtype() const { return type().dtype; }
  const Ints& dims() const { return type().dims; }
  int64_t rank() const { return static_cast<int64_t>(dims().size()); }
  int64_t dim(int64_t i) const { return dims().at(i < 0 ? i + rank() : i); }
  int64_t numel() const { return NumElements(dims()); }
  Builder& builder() const { return *builder_; }
  int32_t id() const { return id_; }
  bool valid() const { return builder_ != nullptr; }

 private:
  Builder* builder_ = nullptr;
  int32_t id_ = -1;
};

Value operator+(Value a, Value b);
Value operator-(Value a, Value b);
Value operator*(Value a, Value b);
Value operator/(Value a, Value b);
Value operator-(Value a);
// A C++ number takes the other operand's element type.
Value operator+(Value a, double b);
Value operator-(Value a, double b);
Value operator*(Value a, double b);
Value operator/(Value a, double b);
Value operator+(double a, Value b);
Value operator-(double a, Value b);
Value operator*(double a, Value b);
Value operator/(double a, Value b);

// Of float32 and complex64 products on devices that have faster ones; kHighest is PyTorch's default.
enum class Precision { kDefault, kHigh, kHighest };

enum class Compare { kEq, kNe, kLt, kLe, kGt, kGe };

// The attributes of stablehlo.gather and scatter, by the specification's names.
struct GatherDims {
  Ints offset_dims, collapsed_slice_dims, operand_batching_dims, start_indices_batching_dims, start_index_map;
  int64_t index_vector_dim = 0;
  bool indices_are_sorted = false;
};
struct ScatterDims {
  Ints update_window_dims, inserted_window_dims, input_batching_dims, scatter_indices_batching_dims,
      scatter_dims_to_operand_dims;
  int64_t index_vector_dim = 0;
  bool indices_are_sorted = false;
  bool unique_indices = false;
};
// stablehlo.convolution on layouts [N, C, spatial...] x [O, I/groups, spatial...] -> [N, O, spatial...] unless dimension
// numbers are given. Empty lists mean ones (strides, dilations) and zeros (padding).
struct ConvDims {
  Ints strides, padding_low, padding_high, lhs_dilation, rhs_dilation;
  std::vector<bool> reversal;
  int64_t feature_groups = 1, batch_groups = 1;
  // {batch or output-feature dim, feature or input-feature dim, spatial dims...}; empty: {0, 1, 2...}.
  Ints lhs_layout, rhs_layout, out_layout;
};
struct WindowDims {
  Ints sizes, strides, base_dilations, window_dilations, padding_low, padding_high;  // one entry per dimension
};

class Builder {
 public:
  using Body = std::function<std::vector<Value>(Builder&, std::span<const Value>)>;
  using Combine = std::function<Value(Builder&, Value, Value)>;

  Builder();
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  // --- module
  Value Parameter(Type type);
  // Takes the last parameter, which nothing uses, out again.
  void DropParameter(Value parameter);
  // Parameter `parameter` may give its memory to result `result` (tf.aliasing_output).
  void Donate(int parameter, int result);
  // The module's text. Instructions that no result needs are left out; parameters all stay.
  std::string Finish(std::span<const Value> results, std::string_view name = "main");
  const Type& TypeOf(int32_t id) const;
  // Locations of the instructions that follow, for compiler messages and profiles ("aten.add at train.py:12"); "" is none.
  void SetLocation(std::string location);
  // The user's line that what follows is for ("train.py:12"), added to every location; "" is none. Gives the one before.
  std::string SetLine(std::string line);

  // For programs that are compared across sizes: each constant is an instruction of its own, and scans take as many steps
  // as sizes up to the next power of two need.
  void UseComparableForms() { comparable_ = true; }

  // For the products that follow.
  void SetPrecision(Precision precision) { precision_ = precision; }

  // What PyTorch's meta kernel says of result i of the op being lowered; set by the harness.
  void SetExpected(std::vector<Type> types) { expected_ = std::move(types); }
  const Type& Expected(size_t i = 0) const { return expected_.at(i); }
  size_t NumExpected() const { return expected_.size(); }

  // Debug mode: every element of `index` must lie in [lower, upper). Outside debug mode this emits nothing.
  struct IndexCheck {
    std::string op;
    int64_t dim, lower, upper;
    Value offender;         // i64[2]: {1 if one is out of range, the first such value}
    std::string assertion;  // what does not hold when `index` is out of range; empty: that it is, is the error
  };
  void EnableChecks(bool on) { checks_enabled_ = on; }
  void SetCheckedOp(std::string op) { checked_op_ = std::move(op); }
  void CheckIndex(Value index, int64_t dim, int64_t lower, int64_t upper) { Check(index, dim, lower, upper, ""); }
  // Debug mode: every element of `condition` must be true; `message` says so when one is not.
  void CheckTrue(Value condition, std::string message);
  const std::vector<IndexCheck>& checks() const { return checks_; }

  // --- constants
  Value Const(double value, DType dtype);  // scalar; inf and nan allowed
  Value Const(std::complex<double> value, DType dtype);
  Value ConstInt(int64_t value, DType dtype = DType::kI64);
  Value ConstLike(double value, Value like) { return Const(value, like.dtype()); }  // scalar, broadcasts
  Value ConstInts(std::span<const int64_t> values, DType dtype = DType::kI64);      // 1-D
  Value ConstDoubles(std::span<const double> values, DType dtype);                  // 1-D
  Value ConstBytes(const Type& type, std::string_view bytes);  // row-major host bytes, as numpy's tobytes()
  Value Full(std::span<const int64_t> dims, double value, DType dtype);
  Value Full(std::span<const int64_t> dims, Value scalar);
  Value Zeros(const Type& type) { return Full(type.dims, 0.0, type.dtype); }
  Value ZerosLike(Value x) { return Full(x.dims(), 0.0, x.dtype()); }
  Value Iota(std::span<const int64_t> dims, int64_t dim, DType dtype = DType::kI64);
  Value Iota(int64_t size, DType dtype = DType::kI64) { return Iota(Ints{size}, 0, dtype); }

  // --- element types
  // PyTorch's conversion: to bool is `!= 0`, complex to real keeps the real part, float to integer truncates.
  Value Cast(Value x, DType dtype);
  // Same bits. Between widths a trailing dimension is split off or merged, as stablehlo.bitcast_convert does.
  Value Bitcast(Value x, DType dtype);
  Value Complex(Value re, Value im);
  Value Real(Value x);
  Value Imag(Value x);
  Value Conj(Value x);  // identity on reals

  // --- elementwise, one operand
  Value Abs(Value x);  // of complex: the modulus, real
  Value Neg(Value x);
  Value Exp(Value x);
  Value Expm1(Value x);
  Value Log(Value x);
  Value Log1p(Value x);
  Value Sqrt(Value x);
  Value Rsqrt(Value x);
  Value Cbrt(Value x);
  Value Sin(Value x);
  Value Cos(Value x);
  Value Tan(Value x);
  Value Tanh(Value x);
  Value Logistic(Value x);
  Value Floor(Value x);
  Value Ceil(Value x);
  Value RoundEven(Value x);
  Value Trunc(Value x);
  Value Sign(Value x);  // 0 for 0, NaN for NaN
  Value Not(Value x);   // logical on bool, bitwise on integers
  Value PopCount(Value x);
  Value CountLeadingZeros(Value x);
  Value IsFinite(Value x);
  Value IsNan(Value x);
  Value IsInf(Value x);
  Value Square(Value x);
  Value Reciprocal(Value x);
  // An elementwise chlo operation by name: "erf", "erfc", "erf_inv", "lgamma", "digamma", "asin", "acos", "atan", "sinh",
  // "cosh", "asinh", "acosh", "atanh", "bessel_i1e", "polygamma", "zeta", "next_after".
  Value Chlo(std::string_view op, std::initializer_list<Value> operands);
  Value Erf(Value x) { return Chlo("erf", {x}); }

  // --- elementwise, two operands: broadcast and promote
  Value Add(Value a, Value b);
  Value Sub(Value a, Value b);
  Value Mul(Value a, Value b);
  Value Div(Value a, Value b);  // integers: truncates; division by zero is left to XLA
  Value Rem(Value a, Value b);  // sign of the dividend (C fmod)
  Value Pow(Value a, Value b);
  // NaN wins. The CPU plugin keeps that promise only with the compile option xla_cpu_enable_fast_min_max=false: by default
  // it loses a NaN in the second operand, and so in every maximum, minimum and clamp, reductions included.
  Value Max(Value a, Value b);
  Value Min(Value a, Value b);
  Value Atan2(Value a, Value b);
  Value And(Value a, Value b);
  Value Or(Value a, Value b);
  Value Xor(Value a, Value b);
  Value ShiftLeft(Value a, Value b);
  Value ShiftRightArithmetic(Value a, Value b);
  Value ShiftRightLogical(Value a, Value b);
  Value Cmp(Compare how, Value a, Value b);
  Value Eq(Value a, Value b) { return Cmp(Compare::kEq, a, b); }
  Value Ne(Value a, Value b) { return Cmp(Compare::kNe, a, b); }
  Value Lt(Value a, Value b) { return Cmp(Compare::kLt, a, b); }
  Value Le(Value a, Value b) { return Cmp(Compare::kLe, a, b); }
  Value Gt(Value a, Value b) { return Cmp(Compare::kGt, a, b); }
  Value Ge(Value a, Value b) { return Cmp(Compare::kGe, a, b); }
  Value Eq(Value a, double b) { return Eq(a, ConstLike(b, a)); }
  Value Ne(Value a, double b) { return Ne(a, ConstLike(b, a)); }
  Value Lt(Value a, double b) { return Lt(a, ConstLike(b, a)); }
  Value Le(Value a, double b) { return Le(a, ConstLike(b, a)); }
  Value Gt(Value a, double b) { return Gt(a, ConstLike(b, a)); }
  Value Ge(Value a, double b) { return Ge(a, ConstLike(b, a)); }
  Value Max(Value a, double b) { return Max(a, ConstLike(b, a)); }
  Value Min(Value a, double b) { return Min(a, ConstLike(b, a)); }

  // --- elementwise, three operands
  Value Select(Value pred, Value on_true, Value on_false);
  Value Select(Value pred, Value on_true, double on_false) {
    return Select(pred, on_true, ConstLike(on_false, on_true));
  }
  Value Select(Value pred, double on_true, Value on_false) {
    return Select(pred, ConstLike(on_true, on_false), on_false);
  }
  Value Clamp(Value low, Value x, Value high);

  // --- shape. Dimensions may be negative.
  Value Reshape(Value x, std::span<const int64_t> dims);
  Value Flatten(Value x) { return Reshape(x, Ints{x.numel()}); }
  Value Transpose(Value x, std::span<const int64_t> permutation);
  Value SwapDims(Value x, int64_t a, int64_t b);
  Value BroadcastTo(Value x, std::span<const int64_t> dims);  // NumPy's rule
  Value BroadcastInDim(Value x, std::span<const int64_t> dims, std::span<const int64_t> broadcast_dims);
  Value Unsqueeze(Value x, int64_t dim);
  Value Squeeze(Value x, int64_t dim);
  Value Slice(Value x, std::span<const int64_t> starts, std::span<const int64_t> limits,
              std::span<const int64_t> strides = {});
  Value SliceDim(Value x, int64_t dim, int64_t start, int64_t limit, int64_t stride = 1);
  Value Concat(std::span<const Value> xs, int64_t dim);
  // Negative low or high crops.
  Value Pad(Value x, Value value, std::span<const int64_t> low, std::span<const int64_t> high,
            std::span<const int64_t> interior = {});
  Value Reverse(Value x, std::span<const int64_t> dims);
  Value DynamicSlice(Value x, std::span<const Value> starts, std::span<const int64_t> sizes);
  Value DynamicUpdateSlice(Value x, Value update, std::span<const Value> starts);
  Value UpdateSlice(Value x, Value update, std::span<const int64_t> starts);  // static starts

  // --- reductions; `dims` empty means all; the result keeps reduced dimensions as size 1 unless keep_dims is false.
  Value Sum(Value x, std::span<const int64_t> dims, bool keep_dims = true);
  Value Prod(Value x, std::span<const int64_t> dims, bool keep_dims = true);
  Value Max(Value x, std::span<const int64_t> dims, bool keep_dims = true);  // NaN wins; empty gives the type's lowest
  Value Min(Value x, std::span<const int64_t> dims, bool keep_dims = true);
  Value All(Value x, std::span<const int64_t> dims, bool keep_dims = true);  // x is cast to bool
  Value Any(Value x, std::span<const int64_t> dims, bool keep_dims = true);
  Value Sum(Value x, int64_t dim) { return Sum(x, Ints{dim}); }
  Value Max(Value x, int64_t dim) { return Max(x, Ints{dim}); }
  Value Min(Value x, int64_t dim) { return Min(x, Ints{dim}); }
  // Several arrays at once; reduced dimensions are dropped. Body: accumulators then elements.
  std::vector<Value> Reduce(std::span<const Value> xs, std::span<const Value> inits, std::span<const int64_t> dims,
                            const Body& body);
  // The largest (smallest) element's index along `dim` as i64, first of equals, NaN wins; keeps the dimension as size 1.
  // {values, indices}.
  std::pair<Value, Value> ArgMax(Value x, int64_t dim);
  std::pair<Value, Value> ArgMin(Value x, int64_t dim);
  std::vector<Value> ReduceWindow(std::span<const Value> xs, std::span<const Value> inits, const WindowDims& window,
                                  const Body& body);
  Value SelectAndScatter(Value x, Value source, Value init, const WindowDims& window, const Combine& select,
                         const Combine& scatter);
  // Inclusive scan along a dimension by log-steps of an associative combination over several arrays.
  std::vector<Value> AssociativeScan(
      std::span<const Value> xs, int64_t dim,
      const std::function<std::vector<Value>(std::span<const Value>, std::span<const Value>)>& combine,
      bool reverse = false);

  // --- linear algebra. Half-precision products accumulate in float32 and keep the operands' element type.
  Value DotGeneral(Value a, Value b, std::span<const int64_t> batch_a, std::span<const int64_t> batch_b,
                   std::span<const int64_t> contract_a, std::span<const int64_t> contract_b,
                   std::optional<DType> result = std::nullopt);
  // [..., m, k] x [..., k, n] with broadcast batch dimensions.
  Value MatMul(Value a, Value b, std::optional<DType> result = std::nullopt);
  Value Convolution(Value x, Value weight, const ConvDims& dims, std::optional<DType> result = std::nullopt);
  Value Cholesky(Value x, bool lower);
  // transpose: "NO_TRANSPOSE", "TRANSPOSE" or "ADJOINT".
  Value TriangularSolve(Value a, Value b, bool left_side, bool lower, bool unit_diagonal, std::string_view transpose);
  // kind: "FFT", "IFFT", "RFFT", "IRFFT" over the last length.size() dimensions.
  Value Fft(Value x, std::string_view kind, std::span<const int64_t> length);

  // --- indexing
  Value Gather(Value x, Value indices, const GatherDims& dims, std::span<const int64_t> slice_sizes);
  Value Scatter(Value x, Value indices, Value updates, const ScatterDims& dims, const Combine& combine);
  std::vector<Value> Scatter(std::span<const Value> xs, Value indices, std::span<const Value> updates,
                             const ScatterDims& dims, const Body& body);
  // x[index] along dimension 0 of `x` viewed as rows: result [index dims..., x dims[1:]...]. Indices in range.
  Value TakeRows(Value x, Value index);
  // torch.gather: result has index's shape; index in range.
  Value TakeAlong(Value x, int64_t dim, Value index);

  // --- control and the rest
  // Sorts all arrays along `dim` by the comparator over (a0, b0, a1, b1, ...).
  std::vector<Value> Sort(std::span<const Value> xs, int64_t dim, bool stable,
                          const std::function<Value(Builder&, std::span<const Value>)>& less);
  std::vector<Value> While(std::span<const Value> init,
                           const std::function<Value(Builder&, std::span<const Value>)>& condition, const Body& body);
  std::vector<Value> If(Value pred, const std::function<std::vector<Value>()>& on_true,
                        const std::function<std::vector<Value>()>& on_false);
  std::vector<Value> CustomCall(std::string_view target, std::span<const Value> operands, std::span<const Type> results,
                                std::string_view attributes = "");
  Value OptimizationBarrier(Value x);

 private:
  void Check(Value index, int64_t dim, int64_t lower, int64_t upper, std::string assertion);
  friend class Text;
  friend class SymbolicProgram;
  friend class PaddedEmitter;
  friend class DynamicEmitter;
  struct Instruction {
    std::string text;           // with markers in place of names (builder_text.h)
    std::vector<int32_t> uses;  // ids that the text, regions included, takes from outside
    int32_t first_result = 0, result_count = 0;
    bool has_effect = false;
    std::string location;
  };
  struct ValueInfo {
    Type type;
    int32_t scope = 0;
    bool is_constant = false;
  };
  // The module's body or an open region.
  struct Scope {
    int32_t serial = 0;
    int32_t first_id = 0;     // values from here on were made inside
    bool may_capture = true;  // XLA takes outer values (not constants) in the regions of while and if only
    std::string op;
    std::deque<Instruction> instructions;
    std::unordered_map<std::string, int32_t> constants;
  };
  using RegionBody = std::function<std::vector<Value>(std::span<const Value>)>;

  int32_t NewValue(Type type, bool is_constant = false);
  void CheckUsable(std::string_view op, int32_t id) const;
  Value Emit(Text&& text, Type result);
  std::vector<Value> Emit(Text&& text, std::span<const Type> results, bool has_effect = false);
  // Appends "{ ^bb0(arguments): ... }"; the body's results must have the types `expected`, if given.
  void AppendRegion(Text& text, std::string_view op, std::span<const Type> arguments,
                    std::optional<std::span<const Type>> expected, bool may_capture, const RegionBody& body);
  std::vector<const Instruction*> Live(const Scope& scope, std::span<const Value> results) const;
  static void AppendInstruction(std::string& out, const Instruction& instruction, int indent);
  Value Literal(std::string elements, Type type);

  Value Unary(std::string_view op, Value x);
  Value FloatUnary(std::string_view op, Value x, bool allow_complex = true);
  Value Rounding(std::string_view op, Value x);
  Value Same(std::string_view op, Value a, Value b);
  Value Binary(std::string_view op, Value a, Value b);
  std::pair<Value, Value> Unify(std::string_view op, Value a, Value b);
  Value Bitwise(std::string_view op, Value a, Value b);
  Value Shift(std::string_view op, Value a, Value b);
  Value SimpleReduce(std::string_view op, Value x, Value init, std::span<const int64_t> dims, bool keep_dims);
  std::pair<Value, Value> ArgReduce(Value x, int64_t dim, bool largest);
  Value Extreme(DType dtype, bool lowest);
  std::string PrecisionAttribute(std::string_view before, std::string_view element_before,
                                 std::string_view element_after, DType operands) const;

  std::deque<ValueInfo> values_;  // a deque: references to types stay valid
  std::vector<std::unique_ptr<Scope>> scopes_;
  int32_t next_scope_ = 0;
  std::vector<int32_t> parameters_;
  std::map<int, int> donations_;
  std::vector<Type> expected_;
  std::string location_, line_;
  Precision precision_ = Precision::kHighest;
  bool comparable_ = false;
  bool checks_enabled_ = false;
  std::string checked_op_;
  std::vector<IndexCheck> checks_;
};

}  // namespace tpu::hlo
