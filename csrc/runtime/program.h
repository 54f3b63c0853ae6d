// One compiled program: StableHLO text in, an executable out, from the compile cache or the compiler.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pjrt/client.h"
#include "pjrt/executable.h"
#include "runtime/value.h"

namespace tpu::cache {
class Compilation;
}

namespace tpu::runtime {

class Program {
 public:
  enum class Start {
    kCompile,     // at once
    kBackground,  // when nothing more urgent is left to compile
    kLoad,        // only look for it in the cache; Compile() or Executable() compile it later
  };
  // Starts in the background. `donations`: (parameter, result) pairs that may share memory. Programs of the same text and
  // donations share one executable.
  Program(pjrt::Client& client, std::string text, std::vector<std::pair<int, int>> donations, std::string name,
          Start start = Start::kCompile);
  // As above; `emit` makes the text there too.
  Program(pjrt::Client& client, std::function<std::string()> emit, std::vector<std::pair<int, int>> donations,
          std::string name, Start start);

  // Blocks until compiled, and compiles at once what has not been begun; submission thread.
  Result<pjrt::LoadedExecutable*> Executable();

  // These three do not block. Ready: Executable() will not either; it gives the executable or why there is none.
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
  using Made = std::shared_ptr<cache::Compilation>;
  static Made Begin(pjrt::Client& client, std::string text, std::span<const std::pair<int, int>> donations,
                    const std::string& name, Start start);
  // Null while the text is being made, or if it cannot be.
  Made compilation() const;

  std::vector<std::pair<int, int>> donations_;
  std::string name_;
  std::shared_future<Made> compilation_;
};

}  // namespace tpu::runtime
