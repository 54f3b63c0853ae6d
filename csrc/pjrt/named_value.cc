#include "pjrt/named_value.h"

#include <cstdio>

namespace tpu::pjrt {
namespace {

struct Filler {
  PJRT_NamedValue& out;
  void operator()(const std::string& v) const {
    out.type = PJRT_NamedValue_kString;
    out.string_value = v.c_str();
    out.value_size = v.size();
  }
  void operator()(int64_t v) const {
    out.type = PJRT_NamedValue_kInt64;
    out.int64_value = v;
  }
  void operator()(bool v) const {
    out.type = PJRT_NamedValue_kBool;
    out.bool_value = v;
  }
  void operator()(float v) const {
    out.type = PJRT_NamedValue_kFloat;
    out.float_value = v;
  }
};

struct Printer {
  std::string operator()(const std::string& v) const { return v; }
  std::string operator()(int64_t v) const { return std::to_string(v); }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(float v) const {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", static_cast<double>(v));
    return text;
  }
  std::string operator()(const std::vector<int64_t>& v) const {
    std::string text = "[";
    for (size_t i = 0; i < v.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(v[i]);
    return text + "]";
  }
};

}  // namespace

std::string ToString(const Attribute& value) { return std::visit(Printer{}, value); }

std::vector<PJRT_NamedValue> ToNamedValues(const Options& options) {
  std::vector<PJRT_NamedValue> values;
  values.reserve(options.size());
  for (const auto& [name, option] : options) {
    PJRT_NamedValue& v = values.emplace_back();
    v.struct_size = PJRT_NamedValue_STRUCT_SIZE;
    v.name = name.c_str();
    v.name_size = name.size();
    v.value_size = 1;
    std::visit(Filler{v}, option);
  }
  return values;
}

Attributes FromNamedValues(const PJRT_NamedValue* values, size_t count) {
  Attributes attributes;
  for (size_t i = 0; i < count; ++i) {
    const PJRT_NamedValue& v = values[i];
    std::string name(v.name, v.name_size);
    switch (v.type) {
      case PJRT_NamedValue_kString: attributes[name] = std::string(v.string_value, v.value_size); break;
      case PJRT_NamedValue_kInt64: attributes[name] = v.int64_value; break;
      case PJRT_NamedValue_kInt64List:
        attributes[name] = std::vector<int64_t>(v.int64_array_value, v.int64_array_value + v.value_size);
        break;
      case PJRT_NamedValue_kFloat: attributes[name] = v.float_value; break;
      case PJRT_NamedValue_kBool: attributes[name] = v.bool_value; break;
    }
  }
  return attributes;
}

}  // namespace tpu::pjrt
