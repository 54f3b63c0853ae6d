// What was flushed, and why: kept while somebody wants to know.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tpu::runtime {

enum class FlushReason : uint8_t {
  kRead,
  kSynchronize,
  kEvent,
  kCopy,
  kSize,
  kMemory,
  kIdle,
  kMode,
  kSubmit,
  kCollective
};
const char* Name(FlushReason reason);

struct FlushRecord {
  FlushReason reason;
  uint32_t line = 0;        // where the program was; 0: in no Python code of the user's (autograd's threads)
  uint32_t first_line = 0;  // of the first op
  int64_t ops = 0;
  std::string how;       // "hit", "compile", ...
  uint64_t program = 0;  // hash of the ops and their edges
  std::string first_op, last_op;
  double host_us = 0;  // until the submission thread had it
  double wait_us = 0;  // that the program then waited
};

// An op, or several as one program, that a program was made for.
struct CompileRecord {
  std::string name;
  uint32_t line = 0;  // as FlushRecord's
  int64_t ops = 1;
  uint64_t program = 0;  // hash of the ops and their edges
  std::string inputs;    // their types
  std::string results;   // which ones, where it is part of what decides the program
};

class Explain {
 public:
  // The hook gives the user's line that the calling thread is at ("train.py:12"), or "". It may take Python's lock.
  using LineHook = std::string (*)();
  static void SetLineHook(LineHook hook);
  static void Enable(bool on);
  static bool enabled();
  // Number of the calling thread's line; 0 when not enabled. Not to be called under a lock.
  static uint32_t Line();
  static std::string LineText(uint32_t line);
  // What the hook gives, enabled or not; "" without one.
  static std::string FindLine();
  static void Add(FlushRecord record);
  static void Add(CompileRecord record);
  // The program waited, for the reason of the youngest flush.
  static void AddWait(double wait_us);
  static std::vector<FlushRecord> TakeFlushes();
  static std::vector<CompileRecord> TakeCompiles();
};

}  // namespace tpu::runtime
