#include "runtime/cluster.h"

#include <algorithm>
#include <bit>

#include "base/hash.h"
#include "base/phase.h"

namespace tpu::runtime {
namespace {

using Start = Program::Start;

// On a busy machine the recording thread is stopped anywhere, and the device seems idle: of the many places where that can
// cut a loop, only one that keeps coming back is worth a program.
constexpr int kChanceSights = 16;

}  // namespace

void LiveSet::InsertAll(const LiveSet& other) {
  for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
}

bool LiveSet::Covers(const LiveSet& other) const {
  for (size_t i = 0; i < words_.size(); ++i) {
    if (other.words_[i] & ~words_[i]) return false;
  }
  return true;
}

bool LiveSet::empty() const {
  return std::all_of(words_.begin(), words_.end(), [](uint64_t word) { return word == 0; });
}

size_t LiveSet::size() const {
  size_t count = 0;
  for (uint64_t word : words_) count += std::popcount(word);
  return count;
}

// What emission needs, and no Values: it runs on the compile pool.
struct Cluster::Structure {
  struct Node {
    OpPtr op;
    std::vector<Source> inputs;
  };
  std::vector<Node> nodes;
  std::vector<TypePtr> taken;
  std::vector<Type> packs;
  size_t produced;

  std::string Emit(const LiveSet& live, const std::vector<std::pair<int, int>>& donations) const;
  // (taken, result) pairs: a taken Value whose place in a slot a result takes, and which nobody else refers to.
  std::vector<std::pair<int, int>> Donations(const LiveSet& live, const std::vector<bool>& dead) const;
};

Cluster::Cluster(const Recording& recording) : key_(recording.key()) {
  auto structure = std::make_shared<Structure>();
  size_t word = 0;
  for (const Recording::Node& node : recording.nodes()) {
    ++word;  // the op's id
    Structure::Node made{node.op, {}};
    for (size_t i = 0; i < node.inputs.size(); ++i) made.inputs.push_back(Source::FromWord(key_[word++]));
    structure->nodes.push_back(std::move(made));
  }
  for (const Value* value : recording.taken()) structure->taken.push_back(value->type_ptr());
  for (const Pack& pack : recording.packs()) structure->packs.push_back({pack.dtype, {pack.count}});
  structure->produced = recording.produced().size();
  structure_ = std::move(structure);
}

std::string Cluster::Structure::Emit(const LiveSet& live, const std::vector<std::pair<int, int>>& donations) const {
  PhaseTimer timer(Phase::kEmit);
  hlo::Builder b;
  std::vector<hlo::Value> from_before, from_host, made;
  for (const TypePtr& type : taken) from_before.push_back(b.Parameter(*type));
  for (const Type& type : packs) from_host.push_back(b.Parameter(type));
  const auto number = [&](const Type& type, int64_t first) {
    const auto pack = std::find_if(packs.begin(), packs.end(), [&](const Type& p) { return p.dtype == type.dtype; });
    const hlo::Value all = from_host[pack - packs.begin()];
    return b.Reshape(b.SliceDim(all, 0, first, first + hlo::NumElements(type.dims)), type.dims);
  };
  for (const Node& node : nodes) {
    std::vector<hlo::Value> operands;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Source source = node.inputs[i];
      switch (source.kind) {
        case Source::Kind::kProduced: operands.push_back(made[source.index]); break;
        case Source::Kind::kTaken: operands.push_back(from_before[source.index]); break;
        case Source::Kind::kHost: operands.push_back(number(*node.op->inputs()[i], source.index)); break;
      }
    }
    hlo::Value rng;
    if (node.op->rng_words() > 0) {
      rng = operands.back();
      operands.pop_back();
    }
    b.SetLocation(node.op->name());
    Emission emission = node.op->emit()(b, operands, rng);
    for (size_t i = 0; i < emission.outputs.size(); ++i) {
      if (node.op->alias()[i] >= 0) continue;
      // Random words have a loop of their own: fused into each of their uses, their hundreds of instructions would be
      // compiled and run again for each (4 dropouts: 1 s to compile on CPU instead of 7).
      made.push_back(emission.rng_words > 0 ? b.OptimizationBarrier(emission.outputs[i]) : emission.outputs[i]);
    }
  }
  std::vector<hlo::Value> results;
  for (size_t i = 0; i < made.size(); ++i) {
    if (live.Contains(i)) results.push_back(made[i]);
  }
  for (auto [parameter, result] : donations) b.Donate(parameter, result);
  return b.Finish(results);
}

std::vector<std::pair<int, int>> Cluster::Structure::Donations(const LiveSet& live,
                                                               const std::vector<bool>& dead) const {
  // Follows each slot's contents through the ops that replace them.
  std::vector<int> origin(produced, -1);  // the taken Value that a result stands in for
  size_t first = 0;
  for (const Node& node : nodes) {
    std::vector<int> index(node.op->alias().size(), -1);
    size_t next = first;
    for (size_t i = 0; i < index.size(); ++i) {
      if (node.op->alias()[i] < 0) index[i] = static_cast<int>(next++);
    }
    for (auto [input, output] : node.op->replaces()) {
      const Source source = node.inputs[input];
      if (source.kind == Source::Kind::kTaken) origin[index[output]] = static_cast<int>(source.index);
      if (source.kind == Source::Kind::kProduced) origin[index[output]] = origin[source.index];
    }
    first = next;
  }
  std::vector<std::pair<int, int>> donations;
  std::vector<bool> given(taken.size());
  int result = -1;
  for (size_t i = 0; i < produced; ++i) {
    if (!live.Contains(i)) continue;
    ++result;
    const int from = origin[i];
    if (from < 0 || given[from] || !dead[from]) continue;
    given[from] = true;
    donations.emplace_back(from, result);
  }
  return donations;
}

void Cluster::AddVariant(pjrt::Client& client, const LiveSet& live, const std::vector<bool>& dead, Start start) {
  LiveSet all = live;  // what was wanted once may be wanted again: the variants converge
  for (const auto& variant : variants_) all.InsertAll(variant->live);
  std::vector<std::pair<int, int>> donations = structure_->Donations(all, dead);
  auto variant = std::make_unique<Variant>(Variant{all, nullptr, {}});
  const auto& nodes = structure_->nodes;
  std::string name = "fused " + nodes.front().op->name() + " ... " + nodes.back().op->name() + " (" +
                     std::to_string(nodes.size()) + " ops)";
  variant->program = std::make_shared<Program>(
      client, [structure = structure_, all, donations] { return structure->Emit(all, donations); }, donations,
      std::move(name), start);
  variants_.push_back(std::move(variant));
}

Cluster::Variant* Cluster::Choose(pjrt::Client& client, const LiveSet& live, const std::vector<bool>& dead,
                                  CompilePolicy policy, bool chance, Choice* choice) {
  const bool wait = policy == CompilePolicy::kWait;
  *choice = Choice::kFailed;
  if (failed_) return nullptr;
  ++seen_;
  for (const auto& variant : variants_) {
    if (!variant->live.Covers(live)) continue;
    *choice = Choice::kHit;
    if (wait) return variant.get();
    if (!variant->program->Ready()) {
      *choice = variant->program->Absent() ? Choice::kStarted : Choice::kCompiling;
      variant->program->Compile(/*background=*/true);
      return nullptr;
    }
    if (variant->program->Executable().ok()) return variant.get();
    failed_ = true;
    *choice = Choice::kFailed;
    return nullptr;
  }
  const bool once = !wait && (!recurs() || (chance && seen_ < kChanceSights));
  *choice = once ? Choice::kFirstSight : Choice::kStarted;
  AddVariant(client, live, dead, wait ? Start::kCompile : once ? Start::kLoad : Start::kBackground);
  return wait ? variants_.back().get() : nullptr;
}

CompileRecord Cluster::Describe(uint32_t line) const {
  CompileRecord record;
  record.name = variants_.back()->program->name();
  record.line = line;
  record.ops = static_cast<int64_t>(structure_->nodes.size());
  record.program = HashWords(key_);
  record.inputs = TypesOf(structure_->taken);
  record.results = std::to_string(variants_.back()->live.size()) + " of " + std::to_string(structure_->produced);
  return record;
}

}  // namespace tpu::runtime
