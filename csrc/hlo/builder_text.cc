#include "hlo/builder_text.h"

#include <algorithm>

namespace tpu::hlo {

void Fail(std::string_view op, std::string_view expected, std::string_view found) {
  std::string message(op);
  message.append(": expected ").append(expected).append(", found ").append(found);
  throw BuildError(message);
}

std::string ToString(std::span<const int64_t> list) {
  std::string out = "[";
  for (size_t i = 0; i < list.size(); ++i) {
    if (i) out += ", ";
    AppendInt(out, list[i]);
  }
  return out += ']';
}

std::string ToString(const Type& type) {
  std::string out;
  AppendType(out, type);
  return out;
}

int64_t NumElements(std::span<const int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

Ints ContiguousStrides(std::span<const int64_t> dims) {
  Ints strides(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<int64_t>(dims[i], 1);
  }
  return strides;
}

Ints BroadcastDims(std::span<const int64_t> a, std::span<const int64_t> b) {
  if (a.size() < b.size()) std::swap(a, b);
  Ints out(a.begin(), a.end());
  size_t shift = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t& size = out[i + shift];
    if (size == b[i] || b[i] == 1) continue;
    if (size != 1) Fail("broadcast", "sizes that agree or are 1", ToString(a) + " and " + ToString(b));
    size = b[i];
  }
  return out;
}

int64_t WrapDim(std::string_view op, int64_t dim, int64_t rank) {
  int64_t wrapped = dim < 0 ? dim + rank : dim;
  if (wrapped < 0 || wrapped >= rank)
    Fail(op, "a dimension of a value of rank " + std::to_string(rank), std::to_string(dim));
  return wrapped;
}

Ints WrapDims(std::string_view op, std::span<const int64_t> dims, int64_t rank) {
  Ints out;
  if (dims.empty()) {
    for (int64_t i = 0; i < rank; ++i) out.push_back(i);
    return out;
  }
  for (int64_t d : dims) out.push_back(WrapDim(op, d, rank));
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end()) Fail(op, "distinct dimensions", ToString(dims));
  return out;
}

void AppendType(std::string& out, const Type& type) {
  out += "tensor<";
  for (int64_t d : type.dims) {
    if (d == kDynamic) {
      out += '?';
    } else {
      AppendInt(out, d);
    }
    out += 'x';
  }
  out += Name(type.dtype);
  out += '>';
}

void AppendQuoted(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  out += '"';
  for (char c : text) {
    auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (u < 0x20 || u == 0x7f) {
      out += '\\';
      out += kHex[u >> 4];
      out += kHex[u & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void AppendMarker(std::string& out, char marker, int32_t id) {
  char bytes[5] = {marker};
  std::memcpy(bytes + 1, &id, 4);
  out.append(bytes, 5);
}

Text& Text::operator<<(Value value) {
  if (!value.valid() || &value.builder() != &builder_)
    Fail(op_, "a value of this builder", value.valid() ? "another's" : "an empty value");
  builder_.CheckUsable(op_, value.id());
  AppendMarker(text, kUse, value.id());
  uses.push_back(value.id());
  return *this;
}

Text& Text::operator<<(std::span<const int64_t> list) { return *this << std::string_view(ToString(list)); }

Text& Text::Array(std::span<const int64_t> list) {
  text += "array<i64";
  for (size_t i = 0; i < list.size(); ++i) {
    text += i ? ", " : ": ";
    AppendInt(text, list[i]);
  }
  text += '>';
  return *this;
}

Text& Text::Pairs(std::span<const int64_t> low, std::span<const int64_t> high) {
  text += '[';
  for (size_t i = 0; i < low.size(); ++i) {
    if (i) text += ", ";
    *this << '[' << low[i] << ", " << high[i] << ']';
  }
  text += ']';
  return *this;
}

Text& Text::Values(std::span<const Value> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) text += ", ";
    *this << values[i];
  }
  return *this;
}

Text& Text::Types(std::span<const Value> values) {
  text += '(';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i) text += ", ";
    *this << values[i].type();
  }
  text += ')';
  return *this;
}

Text& Text::Arrow(std::span<const Type> results) {
  text += " -> ";
  if (results.size() == 1) return *this << results[0];
  text += '(';
  for (size_t i = 0; i < results.size(); ++i) {
    if (i) text += ", ";
    *this << results[i];
  }
  text += ')';
  return *this;
}

Text& Text::Signature(std::span<const Value> operands, const Type& result) {
  return Signature(operands, std::span<const Type>(&result, 1));
}

Text& Text::Signature(std::span<const Value> operands, std::span<const Type> results) {
  text += " : ";
  Types(operands);
  return Arrow(results);
}

}  // namespace tpu::hlo
