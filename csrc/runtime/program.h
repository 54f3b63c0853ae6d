// One compiled program: StableHLO text in, an executable out, compiled once on the compile pool.
#pragma once

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "pjrt/client.h"
#include "pjrt/executable.h"
#include "runtime/value.h"

namespace tpu::runtime {

class Program {
 public:
  // Starts compiling in the background. `donations`: (parameter, result) pairs that may share memory.
  Program(pjrt::Client& client, std::string text, std::vector<std::pair<int, int>> donations, std::string name);
  // As above; `emit` makes the text there too.
  Program(pjrt::Client& client, std::function<std::string()> emit, std::vector<std::pair<int, int>> donations,
          std::string name);
  // Compiled, or refused: Executable() will not block.
  bool Ready() const;
  // Blocks until compiled; submission thread.
  Result<pjrt::LoadedExecutable*> Executable();
  const std::vector<std::pair<int, int>>& donations() const { return donations_; }
  const std::string& name() const { return name_; }
  // While recording is on, the text of every program made is kept: what tests give to other compilers.
  static void RecordTexts(bool on);
  struct Text {
    std::string name, stablehlo;
  };
  static std::vector<Text> TakeTexts();
  // Compilations so far in this process.
  static int64_t CompileCount();

 private:
  void Start(pjrt::Client& client, std::function<std::string()> emit);

  std::vector<std::pair<int, int>> donations_;
  std::string name_;
  std::shared_future<std::shared_ptr<Result<std::unique_ptr<pjrt::LoadedExecutable>>>> compiled_;
  std::atomic<pjrt::LoadedExecutable*> executable_{nullptr};  // null until somebody has waited
};

}  // namespace tpu::runtime
