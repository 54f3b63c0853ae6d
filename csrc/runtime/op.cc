#include "runtime/op.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "base/phase.h"
#include "hlo/fingerprint.h"

namespace tpu::runtime {

const TypePtr& RngStateType() {
  static const auto& type = *new TypePtr(std::make_shared<Type>(Type{DType::kU64, {2}}));
  return type;
}

namespace {

uint64_t NextId() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Op::Op(std::string name, EmitFn emit, std::vector<TypePtr> inputs, const std::vector<std::pair<int, int>>& replaces,
       bool checks)
    : name_(std::move(name)), emit_(std::move(emit)), inputs_(std::move(inputs)), id_(NextId()) {
  PhaseTimer timer(Phase::kEmit);
  hlo::Builder b;
  b.EnableChecks(checks);
  b.SetCheckedOp(name_);
  b.SetLocation(name_);
  std::vector<hlo::Value> parameters;
  for (const TypePtr& type : inputs_) parameters.push_back(b.Parameter(*type));
  hlo::Value rng = b.Parameter(*RngStateType());
  Emission emission = emit_(b, parameters, rng);
  rng_words_ = emission.rng_words;

  std::vector<hlo::Value> results;
  for (const hlo::Value& output : emission.outputs) {
    outputs_.push_back(std::make_shared<Type>(output.type()));
    output_bytes_ += hlo::NumElements(output.type().dims) * ItemSize(output.type().dtype);
    const auto same =
        std::find_if(parameters.begin(), parameters.end(), [&](const hlo::Value& p) { return p.id() == output.id(); });
    alias_.push_back(same == parameters.end() ? -1 : static_cast<int>(same - parameters.begin()));
    if (alias_.back() < 0) results.push_back(output);
  }
  all_alias_ = results.empty() && b.checks().empty();
  for (const auto& [input, output] : replaces) {
    const int result =
        static_cast<int>(output - std::count_if(alias_.begin(), alias_.begin() + output, [](int a) { return a >= 0; }));
    const bool fits = alias_[output] < 0 && *inputs_[input] == *outputs_[output];
    const bool taken = std::find(alias_.begin(), alias_.end(), input) != alias_.end();
    const bool given =
        std::any_of(donations_.begin(), donations_.end(), [&](const auto& d) { return d.first == input; });
    if (fits && !taken && !given) {
      b.Donate(input, result);
      donations_.emplace_back(input, result);
      replaces_.emplace_back(input, output);
    }
  }
  for (const auto& check : b.checks()) {
    results.push_back(check.offender);
    checks_.push_back({check.op, check.dim, check.lower, check.upper, check.assertion});
  }
  if (all_alias_) return;
  if (rng_words_ > 0)
    inputs_.push_back(RngStateType());
  else
    b.DropParameter(rng);
  text_ = b.Finish(results);
  content_ = hlo::FingerprintOfProgram(text_).lo;
}

const std::shared_ptr<Program>& Op::program(pjrt::Client& client) {
  Prepare(client);
  return program_;
}

bool Op::Prepare(pjrt::Client& client) {
  bool made = false;
  std::call_once(once_, [&] {
    program_ = std::make_shared<Program>(client, text_, donations_, name_);
    made = true;
  });
  return made;
}

std::string TypesOf(std::span<const TypePtr> types) {
  std::string text;
  for (const TypePtr& type : types) {
    text += (text.empty() ? "" : ", ") + std::string(Name(type->dtype)) + "[";
    for (size_t i = 0; i < type->dims.size(); ++i) text += (i ? "," : "") + std::to_string(type->dims[i]);
    text += "]";
  }
  return text;
}

namespace {

hlo::Value EmitConstant(hlo::Builder& b, const Value& value) { return b.ConstBytes(value.type(), value.host_bytes()); }

}  // namespace

std::vector<ValuePtr> Graph::FreeValues() const {
  std::unordered_set<const Value*> seen;
  std::vector<ValuePtr> free;
  for (const Node& node : nodes) {
    for (const ValuePtr& input : node.inputs) {
      if (input->host_bytes().empty() && seen.insert(input.get()).second) free.push_back(input);
    }
    if (node.rng && seen.insert(node.rng.get()).second) free.push_back(node.rng);
    for (const ValuePtr& output : node.outputs) seen.insert(output.get());
  }
  return free;
}

std::vector<hlo::Value> Graph::Emit(hlo::Builder& b, std::span<const ValuePtr> inputs,
                                    std::span<const hlo::Value> bound, hlo::Value rng,
                                    std::span<const ValuePtr> outputs) const {
  std::unordered_map<const Value*, hlo::Value> known;
  for (size_t i = 0; i < inputs.size(); ++i) known.emplace(inputs[i].get(), bound[i]);
  const auto find = [&](const ValuePtr& value, const std::string& user) {
    if (auto it = known.find(value.get()); it != known.end()) return it->second;
    if (!value->host_bytes().empty()) return known.emplace(value.get(), EmitConstant(b, *value)).first->second;
    throw hlo::BuildError(
        user + ": expected a tensor made inside the captured function or passed to it, found another device tensor");
  };
  for (const Node& node : nodes) {
    std::vector<hlo::Value> operands;
    const size_t count = node.op->inputs().size() - (node.op->rng_words() > 0 ? 1 : 0);
    for (size_t i = 0; i < count; ++i) operands.push_back(find(node.inputs[i], node.op->name()));
    hlo::Value state = node.rng ? find(node.rng, node.op->name()) : rng;
    if (node.op->rng_words() > 0 && node.rng_offset > 0) {
      const int64_t shift[] = {0, node.rng_offset};
      state = b.Add(state, b.ConstInts(shift, DType::kU64));
    }
    const bool located = !node.line.empty();  // else the line is that of the op which this graph is
    const std::string outer = located ? b.SetLine(node.line) : std::string();
    b.SetLocation(node.op->name());
    b.SetCheckedOp(node.op->name());
    Emission emission = node.op->emit()(b, operands, state);
    if (located) b.SetLine(outer);
    for (size_t i = 0; i < node.outputs.size(); ++i) known.insert_or_assign(node.outputs[i].get(), emission.outputs[i]);
  }
  std::vector<hlo::Value> results;
  for (const ValuePtr& output : outputs) results.push_back(find(output, "capture"));
  return results;
}

}  // namespace tpu::runtime
