// Field numbers from openxla/xla, xla/service/hlo.proto and xla/xla_data.proto.
#include "pjrt/hlo_text.h"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <vector>

#include "pjrt/proto_wire.h"

namespace tpu::pjrt {
namespace {

const char* PrimitiveName(int64_t type) {
  switch (type) {
    case 1: return "pred";
    case 2: return "s8";
    case 3: return "s16";
    case 4: return "s32";
    case 5: return "s64";
    case 6: return "u8";
    case 7: return "u16";
    case 8: return "u32";
    case 9: return "u64";
    case 10: return "f16";
    case 11: return "f32";
    case 12: return "f64";
    case 14: return "opaque";
    case 15: return "c64";
    case 16: return "bf16";
    case 17: return "token";
    case 18: return "c128";
    case 19: return "f8e5m2";
    case 20: return "f8e4m3fn";
    case 21: return "s4";
    case 22: return "u4";
    case 24: return "f8e5m2fnuz";
    case 25: return "f8e4m3fnuz";
    case 33: return "f8e8m0fnu";
  }
  return "?";
}

constexpr int64_t kTuple = 13;

std::string Join(const std::vector<int64_t>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(numbers[i]);
  return text;
}

// ShapeProto: "f32[2,3]{1,0}" or "(f32[], s32[4]{0})".
std::string Shape(std::string_view proto) {
  int64_t type = 0;
  std::vector<int64_t> dims;
  std::vector<int64_t> minor_to_major;
  std::string tuple;
  for (WireReader r(proto); r.Next();) {
    switch (r.field()) {
      case 2: type = r.number(); break;
      case 3: r.ForEachNumber([&](int64_t v) { dims.push_back(v); }); break;
      case 4: tuple += (tuple.empty() ? "" : ", ") + Shape(r.bytes()); break;
      case 5:
        for (WireReader layout(r.bytes()); layout.Next();) {
          if (layout.field() == 1) layout.ForEachNumber([&](int64_t v) { minor_to_major.push_back(v); });
        }
        break;
    }
  }
  if (type == kTuple) return "(" + tuple + ")";
  std::string text = std::string(PrimitiveName(type)) + "[" + Join(dims) + "]";
  return minor_to_major.empty() ? text : text + "{" + Join(minor_to_major) + "}";
}

// LiteralProto: the value of a scalar of a common type, "..." for all others.
std::string Literal(std::string_view proto) {
  for (WireReader r(proto); r.Next();) {
    std::string text;
    int count = 0;
    if (r.field() == 8 && r.bytes().size() == sizeof(float)) {
      float value;
      std::memcpy(&value, r.bytes().data(), sizeof value);
      char digits[32];
      std::snprintf(digits, sizeof digits, "%.9g", static_cast<double>(value));
      return digits;
    }
    if (r.field() == 2 || r.field() == 4 || r.field() == 5) {
      r.ForEachNumber([&](int64_t v) { text = std::to_string(v), ++count; });
      if (count == 1) return text;
    }
  }
  return "...";
}

struct Instruction {
  int64_t id = 0;
  std::string name, opcode, shape, literal, attributes;
  int64_t parameter = 0;
  std::vector<int64_t> operands, called, dims;
};

void Add(std::string& attributes, const std::string& name, std::string_view value) {
  if (!value.empty()) attributes.append(", ").append(name).append("=").append(value);
}

Instruction ReadInstruction(std::string_view proto) {
  Instruction in;
  for (WireReader r(proto); r.Next();) {
    switch (r.field()) {
      case 1: in.name = r.bytes(); break;
      case 2: in.opcode = r.bytes(); break;
      case 3: in.shape = Shape(r.bytes()); break;
      case 7:
        for (WireReader metadata(r.bytes()); metadata.Next();) {
          if (metadata.field() == 2) Add(in.attributes, "op_name", '"' + std::string(metadata.bytes()) + '"');
        }
        break;
      case 8: in.literal = Literal(r.bytes()); break;
      case 9: in.parameter = r.number(); break;
      case 11: Add(in.attributes, "kind", r.bytes()); break;
      case 13: Add(in.attributes, "index", std::to_string(r.number())); break;
      case 14: r.ForEachNumber([&](int64_t v) { in.dims.push_back(v); }); break;
      case 28: Add(in.attributes, "custom_call_target", '"' + std::string(r.bytes()) + '"'); break;
      case 35: in.id = r.number(); break;
      case 36: r.ForEachNumber([&](int64_t v) { in.operands.push_back(v); }); break;
      case 38: r.ForEachNumber([&](int64_t v) { in.called.push_back(v); }); break;
      case 63: Add(in.attributes, "direction", r.bytes()); break;
    }
  }
  return in;
}

std::string Print(const Instruction& in, const std::map<int64_t, std::string>& names,
                  const std::map<int64_t, std::string>& computations) {
  auto name = [](const std::map<int64_t, std::string>& table, int64_t id) {
    auto it = table.find(id);
    return "%" + (it != table.end() ? it->second : std::to_string(id));
  };
  std::string text = "%" + in.name + " = " + in.shape + " " + in.opcode + "(";
  if (in.opcode == "parameter") text += std::to_string(in.parameter);
  if (in.opcode == "constant") text += in.literal;
  for (size_t i = 0; i < in.operands.size(); ++i) text += (i == 0 ? "" : ", ") + name(names, in.operands[i]);
  text += ")";
  if (!in.dims.empty()) text += ", dimensions={" + Join(in.dims) + "}";
  for (int64_t callee : in.called) text += ", calls=" + name(computations, callee);
  return text + in.attributes + "\n";
}

struct Computation {
  std::string name;
  int64_t id = 0;
  int64_t root = 0;
  std::vector<Instruction> instructions;
};

Computation ReadComputation(std::string_view proto) {
  Computation c;
  for (WireReader r(proto); r.Next();) {
    switch (r.field()) {
      case 1: c.name = r.bytes(); break;
      case 2: c.instructions.push_back(ReadInstruction(r.bytes())); break;
      case 5: c.id = r.number(); break;
      case 6: c.root = r.number(); break;
    }
  }
  return c;
}

}  // namespace

std::string_view HloModuleOf(std::string_view hlo_module_proto_with_config) {
  for (WireReader r(hlo_module_proto_with_config); r.Next();) {
    if (r.field() == 1) return r.bytes();
  }
  return {};
}

std::string HloText(std::string_view hlo_module_proto) {
  std::string module;
  int64_t entry = 0;
  std::vector<Computation> computations;
  for (WireReader r(hlo_module_proto); r.Next();) {
    switch (r.field()) {
      case 1: module = r.bytes(); break;
      case 3: computations.push_back(ReadComputation(r.bytes())); break;
      case 6: entry = r.number(); break;
    }
  }
  std::map<int64_t, std::string> names;
  std::map<int64_t, std::string> computation_names;
  for (const Computation& c : computations) {
    computation_names[c.id] = c.name;
    for (const Instruction& in : c.instructions) names[in.id] = in.name;
  }
  std::string text = "HloModule " + module + "\n";
  for (const Computation& c : computations) {
    text += std::string("\n") + (c.id == entry ? "ENTRY " : "") + "%" + c.name + " {\n";
    for (const Instruction& in : c.instructions) {
      text += (in.id == c.root ? "  ROOT " : "  ") + Print(in, names, computation_names);
    }
    text += "}\n";
  }
  return text;
}

}  // namespace tpu::pjrt
