// One compiled program: StableHLO text in, an executable out, from the compile cache or the compiler.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pjrt/client.h"
#include "pjrt/executable.h"
#include "runtime/value.h"

namespace tpu::runtime {

class Program {
 public:
  enum class Start {
    kCompile,     // at once
    kBackground,  // when nothing more urgent is left to compile
    kLoad,        // only look for it in the cache; Compile() or Executable() compile it later
  };
  // Starts on the compile pool. `donations`: (parameter, result) pairs that may share memory. Programs of the same text
  // and donations share one executable.
  Program(pjrt::Client& client, std::string text, std::vector<std::pair<int, int>> donations, std::string name,
          Start start = Start::kCompile);
  // As above; `emit` makes the text there too.
  Program(pjrt::Client& client, std::function<std::string()> emit, std::vector<std::pair<int, int>> donations,
          std::string name, Start start = Start::kCompile);

  // Blocks until compiled, and does at once what has not been begun; submission thread.
  Result<pjrt::LoadedExecutable*> Executable();

  // These three do not block. Ready: compiled, or refused; Executable() will not block either.
  bool Ready() const;
  // No tier of the cache has it, and nothing compiles it: started with kLoad, and the answer is there.
  bool Absent() const;
  // Compiles what no tier has; `background` as Start::kBackground. May be called again, to hurry.
  void Compile(bool background);

  const std::vector<std::pair<int, int>>& donations() const { return donations_; }
  const std::string& name() const { return name_; }
  // While recording is on, the text of every program made is kept: what tests give to other compilers.
  static void RecordTexts(bool on);
  struct Text {
    std::string name, stablehlo;
  };
  static std::vector<Text> TakeTexts();
  // Compilations so far in this process; loading a compiled program is none.
  static int64_t CompileCount();

 private:
  struct Work;

  std::vector<std::pair<int, int>> donations_;
  std::string name_;
  std::shared_ptr<Work> work_;
};

}  // namespace tpu::runtime
