// Padding and what combines elements: reductions, windows, products, sorts. The neutral element takes the padding's place.
#include <algorithm>

#include "hlo/builder_text.h"
#include "hlo/padded_emitter.h"

namespace tpu::hlo {

void PaddedEmitter::Reduce(const Instruction& i) {
  std::vector<Laid> operands = Operands(i);
  const size_t count = static_cast<size_t>(i.result_count);
  std::vector<Laid> arrays(operands.begin(), operands.begin() + static_cast<int64_t>(count));
  const Axes axes = lay_.Merge(arrays);
  const Ints dims = i.Numbers(i.has_region ? "dimensions = array<i64: " : "dimensions = [");
  for (size_t a = 0; a < count; ++a) operands[a].value = lay_.Masked(arrays[a], dims, operands[count + a].value);
  // "stablehlo.reduce(x init: y)": the text names the pairs in turn.
  if (!i.has_region && count != 1) RefusePadding(i.op, "its text is not as expected");
  Axes result;
  for (int64_t d = 0; d < static_cast<int64_t>(axes.size()); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) result.push_back(axes[d]);
  }
  SetResults(i, Instantiate(i, operands), result);
}

void PaddedEmitter::ReduceWindow(const Instruction& i) {
  std::vector<Laid> operands = Operands(i);
  const size_t count = static_cast<size_t>(i.result_count);
  std::vector<Laid> arrays(operands.begin(), operands.begin() + static_cast<int64_t>(count));
  Axes axes = lay_.Merge(arrays);
  const std::vector<Polynomial> padding = i.List("padding = dense<[["),
                                window = i.List("window_dimensions = array<i64: ");
  const Sizes& sizes = ResultSizes(i);
  Ints dims;
  for (size_t d = 0; d < axes.size(); ++d) {
    const bool whole = window[d] == Polynomial(1) && sizes[d] == SizeOf(axes[d]);
    if (IsStatic(axes[d]) && window[d].is_constant()) {
      axes[d] = LinearAxis(sizes[d]);
      continue;
    }
    if (whole) continue;
    dims.push_back(static_cast<int64_t>(d));
    for (Laid& x : arrays) x = lay_.Linear(std::move(x), static_cast<int64_t>(d));
    const Polynomial low = padding.at(2 * d), last = sizes[d] - Polynomial(1);
    // A window that grows with the size must reach past the ends anyway.
    const Polynomial behind = low - last, ahead = window[d] - SizeOf(axes[d]);
    const bool fits = window[d].is_constant() ? low.is_constant()
                      : low.is_constant()
                          ? ahead.is_constant() && ahead.constant() >= 0
                          : behind.is_constant() && behind.constant() >= 0 && (window[d] - low).is_constant();
    if (!fits) RefusePadding(i.op, "its window depends on a size");
    axes[d] = LinearAxis(sizes[d]);
  }
  for (size_t a = 0; a < count; ++a) operands[a].value = lay_.Masked(arrays[a], dims, operands[count + a].value);
  SetResults(i, Instantiate(i, operands), axes);
}

void PaddedEmitter::SelectAndScatter(const Instruction& i) {
  const Ints window = i.Numbers("window_dimensions = array<i64: ");
  std::vector<Laid> operands = Operands(i);
  Axes axes = operands[0].axes;
  for (size_t d = 0; d < axes.size(); ++d) {
    if (IsStatic(axes[d]) && IsStatic(operands[1].axes[d])) continue;
    if (window[d] != 1 || SizeOf(axes[d]) != SizeOf(operands[1].axes[d]))
      RefusePadding(i.op, "its window moves along a dimension that depends on a size");
    axes[d] = lay_.MergeDims(operands[0], static_cast<int64_t>(d), operands[1], static_cast<int64_t>(d));
    for (Factor& f : axes[d]) f.uniform = false;
  }
  SetResults(i, Instantiate(i, operands), axes);
}

void PaddedEmitter::Dot(const Instruction& i) {
  std::vector<Laid> operands = Operands(i);
  Laid &a = operands[0], &b = operands[1];
  // "batching_dims = [0] x [0], contracting_dims = [1] x [0]"
  const auto pair = [&](std::string_view label) -> std::pair<Ints, Ints> {
    using Kind = Piece::Kind;
    const std::optional<size_t> start = i.Find(label);
    if (!start) return {};
    Ints lists[2];
    int list = 0;
    if (!i.pieces[*start].text.ends_with(label)) return {};
    for (size_t p = *start + 1; p < i.pieces.size() && list < 2; ++p) {
      if (i.pieces[p].kind == Kind::kNumber) lists[list].push_back(i.pieces[p].number.constant());
      if (i.pieces[p].kind == Kind::kLiteral && i.pieces[p].text.find(']') != std::string::npos) ++list;
    }
    return {lists[0], lists[1]};
  };
  const auto [batch_a, batch_b] = pair("batching_dims = [");
  const auto [contract_a, contract_b] = pair("contracting_dims = [");
  Axes axes;
  for (size_t k = 0; k < batch_a.size(); ++k) axes.push_back(lay_.MergeDims(a, batch_a[k], b, batch_b[k]));
  for (size_t k = 0; k < contract_a.size(); ++k) lay_.MergeDims(a, contract_a[k], b, contract_b[k]);
  const auto add_free = [&](const Laid& x, const Ints& batch, const Ints& contract) {
    for (int64_t d = 0; d < static_cast<int64_t>(x.axes.size()); ++d) {
      if (std::ranges::count(batch, d) + std::ranges::count(contract, d) == 0) axes.push_back(x.axes[d]);
    }
  };
  add_free(a, batch_a, contract_a);
  add_free(b, batch_b, contract_b);
  a.value = lay_.Masked(a, contract_a, b_.ConstInt(0, a.value.dtype()));
  b.value = lay_.Masked(b, contract_b, b_.ConstInt(0, b.value.dtype()));
  // Uniform along a dimension is only what both are.
  for (Axis& axis : axes)
    for (Factor& f : axis) f.uniform = false;
  SetResults(i, Instantiate(i, operands), axes);
}

void PaddedEmitter::Convolution(const Instruction& i) {
  std::vector<Laid> operands = Operands(i);
  // "dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window": a place each.
  std::string text;
  for (const Piece& piece : i.pieces) text += piece.kind == Piece::Kind::kUse ? std::string("%") : piece.text;
  const auto places = [&](int list) {
    size_t at = text.find("dim_numbers = ");
    for (int k = 0; k <= list; ++k) at = text.find('[', at) + 1;
    std::vector<std::string> labels;
    for (size_t end = text.find(']', at); at < end;) {
      const size_t comma = std::min(text.find(", ", at), end);
      labels.push_back(text.substr(at, comma - at));
      at = comma + 2;
    }
    return labels;
  };
  const auto lhs = places(0), rhs = places(1), out = places(2);
  const auto place = [](const std::vector<std::string>& labels, const std::string& label) {
    return static_cast<int64_t>(std::find(labels.begin(), labels.end(), label) - labels.begin());
  };
  const auto single = [&](std::string_view label) {
    const std::optional<size_t> at = i.Find(label);
    return at ? i.pieces.at(*at + 1).number : Polynomial(1);
  };
  const bool grouped =
      single("feature_group_count = ") != Polynomial(1) || single("batch_group_count = ") != Polynomial(1);
  const std::vector<Polynomial> pads = i.List("pad = [[");
  Laid &x = operands[0], &w = operands[1];
  const int64_t batch = place(lhs, "b"), feature = place(lhs, "f"), inputs = place(rhs, "i"), outputs = place(rhs, "o");
  const Sizes& sizes = ResultSizes(i);
  Axes axes = LinearAxes(sizes);
  if (grouped && (!IsStatic(w.axes[outputs]) || !IsStatic(x.axes[feature]) ||
                  (single("batch_group_count = ") != Polynomial(1) && !IsStatic(x.axes[batch]))))
    RefusePadding(i.op, "its groups depend on a size");
  if (!grouped) lay_.MergeDims(x, feature, w, inputs);
  const auto plain = [](Axis axis) {
    for (Factor& f : axis) f.uniform = false;
    return axis;
  };
  if (single("batch_group_count = ") == Polynomial(1)) axes[place(out, "b")] = plain(x.axes[batch]);
  axes[place(out, "f")] = plain(w.axes[outputs]);
  Ints x_dims = {feature}, w_dims = {inputs};
  for (size_t k = 0; k + 2 < lhs.size(); ++k) {
    const int64_t dx = place(lhs, std::to_string(k)), dw = place(rhs, std::to_string(k));
    x = lay_.Linear(std::move(x), dx);
    w = lay_.Linear(std::move(w), dw);
    x_dims.push_back(dx);
    w_dims.push_back(dw);
    const bool changes = !IsStatic(x.axes[dx]) || !IsStatic(w.axes[dw]);
    const bool reversed = text.find("reverse = [") != std::string::npos;
    if (changes && (!pads.at(2 * k).is_constant() || (reversed && !IsStatic(w.axes[dw]))))
      RefusePadding(i.op, "its padding depends on a size");
  }
  x.value = lay_.Masked(x, x_dims, b_.ConstInt(0, x.value.dtype()));
  w.value = lay_.Masked(w, w_dims, b_.ConstInt(0, w.value.dtype()));
  SetResults(i, Instantiate(i, operands), axes);
}

// What is true comes first: a flag beside the keys says so.
void PaddedEmitter::Sort(const Instruction& i) {
  using Kind = Piece::Kind;
  std::vector<Laid> arrays = Operands(i);
  Axes axes = lay_.Merge(arrays);
  const auto label = i.Find("dimension = ");
  const int64_t dim = i.pieces.at(*label + 1).number.constant();
  if (IsStatic(axes[dim])) {
    for (Axis& axis : axes)
      for (Factor& f : axis) f.uniform = false;
    return SetResults(i, Instantiate(i, arrays), axes);
  }
  // The comparator over (a0, b0, ...), as a function that is emitted inside another region.
  const auto less = [&](std::span<const Value> args) {
    Text text(b_, "");
    std::unordered_map<int32_t, Value> inner;
    size_t next = 0;
    bool inside = false;
    Value result;
    // Instructions of a comparator: one after the other, each defining one value.
    std::vector<Piece> pieces;
    int32_t defined = -1;
    const auto flush = [&] {
      if (defined < 0) return;
      Text line(b_, "");
      for (const Piece& p : pieces) {
        if (p.kind == Kind::kUse)
          line << inner.at(p.id);
        else
          line << p.text;
      }
      if (const size_t location = line.text.rfind(" loc("); location != std::string::npos) line.text.resize(location);
      while (!line.text.empty() && (line.text.back() == ' ' || line.text.back() == '\n')) line.text.pop_back();
      const SymbolicType& type = program_.TypeOf(defined);
      if (!type.dims.empty()) RefusePadding(i.op, "its comparator has arrays");
      inner.emplace(defined, b_.Emit(std::move(line), Type{type.dtype, {}}));
      pieces.clear();
      defined = -1;
    };
    for (const Piece& p : i.pieces) {
      if (p.kind == Kind::kArgument) {
        inner.emplace(p.id, args[next++]);
        continue;
      }
      if (p.kind == Kind::kDefine) {
        flush();
        if (p.count != 1) RefusePadding(i.op, "its comparator is not simple");
        inside = true;
        defined = p.id;
        continue;
      }
      if (!inside) continue;
      const size_t end = p.kind == Kind::kLiteral ? p.text.find("stablehlo.return") : std::string::npos;
      if (end != std::string::npos) {
        pieces.push_back({Kind::kLiteral, p.text.substr(0, end), {}});
        flush();
        inside = false;
        result = Value();
        const size_t at = static_cast<size_t>(&p - i.pieces.data());
        result = inner.at(i.pieces.at(at + 1).id);
        break;
      }
      pieces.push_back(p);
      if (pieces.size() == 1 && p.kind == Kind::kLiteral && p.text.starts_with(" = ")) {
        pieces[0].text = p.text.substr(3);
      }
    }
    if (!result.valid()) RefusePadding(i.op, "its comparator is not simple");
    return result;
  };
  Value padding = b_.Cast(b_.Not(lay_.Valid(axes[dim])), DType::kI32);
  std::vector<Value> keys = {b_.BroadcastInDim(padding, lay_.PaddedDims(axes), Ints{dim})};
  for (const Laid& x : arrays) keys.push_back(x.value);
  std::vector<Value> sorted = b_.Sort(keys, dim, /*stable=*/true, [&](Builder& b, std::span<const Value> v) {
    return b.Or(b.Lt(v[0], v[1]), b.And(b.Eq(v[0], v[1]), less(v.subspan(2))));
  });
  sorted.erase(sorted.begin());
  axes[dim] = LinearAxis(ResultSizes(i)[dim]);
  for (Axis& axis : axes)
    for (Factor& f : axis) f.uniform = false;
  SetResults(i, sorted, axes);
}

}  // namespace tpu::hlo
