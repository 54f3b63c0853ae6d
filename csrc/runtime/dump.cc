#include "runtime/dump.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "hlo/fingerprint.h"

namespace tpu::runtime {
namespace {

const std::string& Folder() {
  static const auto& folder = *new std::string([] {
    const char* said = std::getenv("TORCHTPU_DUMP");
    const std::string made = said ? said : "";
    std::error_code ignored;
    if (!made.empty()) std::filesystem::create_directories(made, ignored);
    return made;
  }());
  return folder;
}

void WriteFile(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

}  // namespace

std::string DumpPath(const std::string& name, const std::string& text) {
  if (Folder().empty()) return "";
  std::string file = name.substr(0, 80);
  std::replace_if(
      file.begin(), file.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return Folder() + "/" + file + "-" + hlo::FingerprintOfProgram(text).Hex().substr(0, 16);
}

void DumpText(const std::string& path, const std::string& text) {
  if (!path.empty()) WriteFile(path + ".stablehlo.mlir", text);
}

void DumpExecutable(const std::string& path, const pjrt::Executable& executable) {
  if (path.empty()) return;
  Result<std::string> hlo = executable.OptimizedHlo();
  WriteFile(path + ".hlo.txt", hlo.ok() ? *hlo : hlo.status().message() + "\n");
  std::string cost;
  Result<pjrt::Attributes> analysis = executable.CostAnalysis();
  if (!analysis.ok()) cost += analysis.status().message() + "\n";
  if (analysis.ok()) {
    for (const auto& [name, value] : *analysis) cost += name + ": " + pjrt::ToString(value) + "\n";
  }
  Result<pjrt::CompiledMemoryStats> memory = executable.MemoryStats();
  if (!memory.ok()) cost += memory.status().message() + "\n";
  if (memory.ok()) {
    const std::pair<const char*, int64_t> sizes[] = {{"argument", memory->argument_bytes},
                                                     {"output", memory->output_bytes},
                                                     {"temp", memory->temp_bytes},
                                                     {"alias", memory->alias_bytes},
                                                     {"generated code", memory->generated_code_bytes},
                                                     {"peak", memory->peak_bytes}};
    for (const auto& [name, bytes] : sizes) cost += std::string(name) + " bytes: " + std::to_string(bytes) + "\n";
  }
  WriteFile(path + ".cost.txt", cost);
}

}  // namespace tpu::runtime
