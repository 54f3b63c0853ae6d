// TORCHTPU_DUMP=DIR: what was compiled, as files for people.
#pragma once

#include <string>

#include "pjrt/executable.h"

namespace tpu::runtime {

// The path of a program's files but for their endings, "DIR/compiled_forward-0123456789abcdef"; "" when nothing is dumped.
// Programs that compute the same have the same files.
std::string DumpPath(const std::string& name, const std::string& text);
// Writes PATH.stablehlo.mlir. Files that cannot be written are none: a dump fails no program.
void DumpText(const std::string& path, const std::string& text);
// Writes PATH.hlo.txt (optimised) and PATH.cost.txt (cost analysis and memory), or what the plugin says instead.
void DumpExecutable(const std::string& path, const pjrt::Executable& executable);

}  // namespace tpu::runtime
