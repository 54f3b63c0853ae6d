// A sequence of ops with its edges, as one program: what recordings with equal keys share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/explain.h"
#include "runtime/recording.h"

namespace tpu::runtime {

// Of results by index: those that a program gives.
class LiveSet {
 public:
  explicit LiveSet(size_t results) : words_((results + 63) / 64) {}
  void Insert(size_t i) { words_[i / 64] |= uint64_t{1} << i % 64; }
  bool Contains(size_t i) const { return words_[i / 64] >> i % 64 & 1; }
  void InsertAll(const LiveSet& other);
  bool Covers(const LiveSet& other) const;
  bool empty() const;
  size_t size() const;

 private:
  std::vector<uint64_t> words_;
};

// Whether a program is waited for. kBackground: meanwhile the ops run one by one, as in strict mode.
enum class CompilePolicy { kBackground, kWait };

class Cluster {
 public:
  // One program: which results it gives, and which inputs it may overwrite, differ between them.
  struct Variant {
    LiveSet live;
    std::shared_ptr<Program> program;
    std::vector<ValuePtr> packs;  // as last run
  };
  // Why Choose gave what it gave, for explain.
  enum class Choice { kHit, kCompiling, kStarted, kFirstSight, kFailed };

  explicit Cluster(const Recording& recording);
  const std::vector<uint64_t>& key() const { return key_; }
  // What is met once (a model's initialisation, a first step's own ops) is not worth compiling, only looking for.
  bool recurs() const { return seen_ > 1; }
  // The program to run now, which gives at least `live`; null when there is none yet. `dead`: per taken Value, whether
  // nothing else refers to it.
  // `chance`: nothing in the program made it end here.
  Variant* Choose(pjrt::Client& client, const LiveSet& live, const std::vector<bool>& dead, CompilePolicy policy,
                  bool chance, Choice* choice);
  // Its youngest program. `line`: that of the first op.
  CompileRecord Describe(uint32_t line) const;

 private:
  struct Structure;
  void AddVariant(pjrt::Client& client, const LiveSet& live, const std::vector<bool>& dead, Program::Start start);

  std::vector<uint64_t> key_;
  std::shared_ptr<const Structure> structure_;
  std::vector<std::unique_ptr<Variant>> variants_;
  int seen_ = 0;
  bool failed_ = false;  // XLA refused it: its ops run one by one
};

}  // namespace tpu::runtime
