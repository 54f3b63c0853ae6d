// The module: values, scopes, regions, printing.
#include <algorithm>
#include <utility>

#include "hlo/builder_text.h"

namespace tpu::hlo {

namespace {

// Replaces markers by names, in order of appearance.
class Printer {
 public:
  explicit Printer(size_t values) : names_(values) {}

  std::string& NameArgument(int32_t id) {
    std::string& name = names_[id];
    name = "%arg";
    AppendInt(name, next_argument_++);
    return name;
  }

  void Print(std::string_view text, std::string& out) {
    size_t begin = 0;
    for (size_t i = 0; i < text.size();) {
      char c = text[i];
      if (c < kUse || c > kArgument) {
        ++i;
        continue;
      }
      out.append(text.substr(begin, i - begin));
      int32_t id = Read(text, i + 1);
      i += 5;
      if (c == kUse) {
        out += names_[id];
      } else if (c == kArgument) {
        out += NameArgument(id);
      } else {
        Define(id, Read(text, i), out);
        i += 4;
      }
      begin = i;
    }
    out.append(text.substr(begin));
  }

 private:
  static int32_t Read(std::string_view text, size_t at) {
    int32_t value;
    std::memcpy(&value, text.data() + at, 4);
    return value;
  }

  void Define(int32_t first, int32_t count, std::string& out) {
    std::string name = "%";
    AppendInt(name, next_++);
    out += name;
    if (count == 1) {
      names_[first] = std::move(name);
      return;
    }
    out += ':';
    AppendInt(out, count);
    for (int32_t i = 0; i < count; ++i) {
      names_[first + i] = name + '#';
      AppendInt(names_[first + i], i);
    }
  }

  std::vector<std::string> names_;
  int64_t next_ = 0, next_argument_ = 0;
};

bool IsPlainSymbol(std::string_view name) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (name.empty() || !letter(name[0])) return false;
  return std::all_of(name.begin(), name.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '$' || c == '.'; });
}

}  // namespace

const Type& Value::type() const {
  if (!builder_) Fail("hlo", "a value", "an empty one");
  return builder_->TypeOf(id_);
}

Builder::Builder() {
  scopes_.push_back(std::make_unique<Scope>());
  next_scope_ = 1;
}

const Type& Builder::TypeOf(int32_t id) const { return values_.at(id).type; }

void Builder::SetLocation(std::string location) {
  location_ = std::move(location);
  if (!line_.empty()) location_.append(" at ").append(line_);
}

std::string Builder::SetLine(std::string line) { return std::exchange(line_, std::move(line)); }

int32_t Builder::NewValue(Type type, bool is_constant) {
  values_.push_back({std::move(type), scopes_.back()->serial, is_constant});
  return static_cast<int32_t>(values_.size() - 1);
}

Value Builder::Parameter(Type type) {
  if (scopes_.size() > 1) Fail("Parameter", "the module's scope", "a region of " + scopes_.back()->op);
  int32_t id = NewValue(std::move(type));
  parameters_.push_back(id);
  return Value(this, id);
}

void Builder::DropParameter(Value parameter) {
  if (parameters_.empty() || parameters_.back() != parameter.id()) {
    Fail("DropParameter", "the last parameter", "value " + std::to_string(parameter.id()));
  }
  parameters_.pop_back();
}

void Builder::Donate(int parameter, int result) { donations_[parameter] = result; }

void Builder::CheckUsable(std::string_view op, int32_t id) const {
  const ValueInfo& info = values_.at(id);
  for (size_t i = scopes_.size(); i-- > 0;) {
    const Scope& scope = *scopes_[i];
    if (scope.serial == info.scope) return;
    if (!scope.may_capture && !info.is_constant)
      Fail(op, "values made in the region of " + scope.op, "one from outside (XLA takes those in While and If only)");
  }
  Fail(op, "a value of an open region", "one of a region that has ended");
}

Value Builder::Emit(Text&& text, Type result) { return Emit(std::move(text), std::span<const Type>(&result, 1))[0]; }

std::vector<Value> Builder::Emit(Text&& text, std::span<const Type> results, bool has_effect) {
  Instruction instruction;
  instruction.text = std::move(text.text);
  instruction.uses = std::move(text.uses);
  instruction.first_result = static_cast<int32_t>(values_.size());
  instruction.result_count = static_cast<int32_t>(results.size());
  instruction.has_effect = has_effect;
  instruction.location = location_;
  std::vector<Value> values;
  values.reserve(results.size());
  for (const Type& type : results) values.emplace_back(this, NewValue(type));
  scopes_.back()->instructions.push_back(std::move(instruction));
  return values;
}

std::vector<const Builder::Instruction*> Builder::Live(const Scope& scope, std::span<const Value> results) const {
  std::vector<char> needed(values_.size() - scope.first_id);
  auto need = [&](int32_t id) {
    if (id >= scope.first_id) needed[id - scope.first_id] = 1;
  };
  for (Value v : results) need(v.id());
  std::vector<const Instruction*> live;
  for (auto it = scope.instructions.rbegin(); it != scope.instructions.rend(); ++it) {
    bool wanted = it->has_effect;
    for (int32_t i = 0; i < it->result_count; ++i) wanted |= needed[it->first_result + i - scope.first_id] != 0;
    if (!wanted) continue;
    live.push_back(&*it);
    for (int32_t id : it->uses) need(id);
  }
  std::reverse(live.begin(), live.end());
  return live;
}

void Builder::AppendInstruction(std::string& out, const Instruction& instruction, int indent) {
  out.append(indent, ' ');
  if (instruction.result_count > 0) {
    AppendMarker(out, kDefine, instruction.first_result);
    out.append(reinterpret_cast<const char*>(&instruction.result_count), 4);
    out += " = ";
  }
  out += instruction.text;
  if (!instruction.location.empty()) {
    out += " loc(";
    AppendQuoted(out, instruction.location);
    out += ')';
  }
  out += '\n';
}

void Builder::AppendRegion(Text& text, std::string_view op, std::span<const Type> arguments,
                           std::optional<std::span<const Type>> expected, bool may_capture, const RegionBody& body) {
  int indent = 4 + 2 * static_cast<int>(scopes_.size() - 1);
  auto opened = std::make_unique<Scope>();
  opened->serial = next_scope_++;
  opened->first_id = static_cast<int32_t>(values_.size());
  opened->may_capture = may_capture;
  opened->op = op;
  scopes_.push_back(std::move(opened));
  struct Closer {
    std::vector<std::unique_ptr<Scope>>& scopes;
    ~Closer() { scopes.pop_back(); }
  } closer{scopes_};
  const Scope& scope = *scopes_.back();

  std::vector<Value> values;
  for (const Type& type : arguments) values.emplace_back(this, NewValue(type));
  std::vector<Value> results = body(values);
  if (expected && results.size() != expected->size())
    Fail(op, std::to_string(expected->size()) + " results of its body", std::to_string(results.size()));
  for (size_t i = 0; expected && i < results.size(); ++i)
    if (results[i].type() != (*expected)[i])
      Fail(op, ToString((*expected)[i]) + " as result " + std::to_string(i) + " of its body",
           ToString(results[i].type()));

  std::string& out = text.text;
  out += "{\n";
  if (!values.empty()) {
    out.append(indent, ' ').append("^bb0(");
    for (size_t i = 0; i < values.size(); ++i) {
      if (i) out += ", ";
      AppendMarker(out, kArgument, values[i].id());
      out += ": ";
      AppendType(out, arguments[i]);
    }
    out += "):\n";
  }
  auto use_outer = [&](int32_t id) {
    if (id < scope.first_id) text.uses.push_back(id);
  };
  for (const Instruction* instruction : Live(scope, results)) {
    AppendInstruction(out, *instruction, indent + 2);
    for (int32_t id : instruction->uses) use_outer(id);
  }
  Text end(*this, "stablehlo.return");
  if (!results.empty()) {
    end << ' ';
    end.Values(results) << " : ";
    for (size_t i = 0; i < results.size(); ++i) end << (i ? ", " : "") << results[i].type();
  }
  for (int32_t id : end.uses) use_outer(id);
  out.append(indent + 2, ' ').append(end.text).append("\n");
  out.append(indent, ' ').append("}");
}

std::string Builder::Finish(std::span<const Value> results, std::string_view name) {
  if (scopes_.size() > 1) Fail("Finish", "the module's scope", "a region of " + scopes_.back()->op);
  Text end(*this, "return");
  if (!results.empty()) {
    end << ' ';
    end.Values(results) << " : ";
    for (size_t i = 0; i < results.size(); ++i) end << (i ? ", " : "") << results[i].type();
  }
  std::vector<const Instruction*> live = Live(*scopes_[0], results);
  size_t length = 256;
  for (const Instruction* instruction : live) length += instruction->text.size() + 16;
  std::string body, out;
  body.reserve(length);
  out.reserve(length * 2);
  for (const Instruction* instruction : live) AppendInstruction(body, *instruction, 4);
  body.append("    ").append(end.text).append("\n  }\n}\n");

  Printer printer(values_.size());
  out += "module @";
  if (IsPlainSymbol(name)) {
    out += name;
  } else {
    AppendQuoted(out, name);
  }
  out += " {\n  func.func public @main(";
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (i) out += ", ";
    out += printer.NameArgument(parameters_[i]);
    out += ": ";
    AppendType(out, TypeOf(parameters_[i]));
    if (auto it = donations_.find(static_cast<int>(i)); it != donations_.end()) {
      out += " {tf.aliasing_output = ";
      AppendInt(out, it->second);
      out += " : i32}";
    }
  }
  out += ") -> (";
  for (size_t i = 0; i < results.size(); ++i) {
    if (i) out += ", ";
    AppendType(out, results[i].type());
  }
  out += ") {\n";
  printer.Print(body, out);
  return out;
}

}  // namespace tpu::hlo
