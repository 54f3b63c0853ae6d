#include "pjrt/executable.h"

#include <utility>

#include "pjrt/call.h"
#include "pjrt/element_type.h"
#include "pjrt/hlo_text.h"
#include "pjrt/named_value.h"

namespace tpu::pjrt {

Result<std::unique_ptr<Executable>> Executable::Create(const Plugin* plugin, PJRT_Executable* executable) {
  std::unique_ptr<Executable> result(new Executable(plugin, executable));
  TPU_RETURN_IF_ERROR(result->ReadOutputs());
  return result;
}

Executable::~Executable() {
  PJRT_Executable_Destroy_Args args{};
  args.executable = executable_;
  (void)TPU_PJRT_CALL(*plugin_, PJRT_Executable_Destroy, args);
}

Status Executable::ReadOutputs() {
  PJRT_Executable_OutputElementTypes_Args types{};
  types.executable = executable_;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Executable_OutputElementTypes, types));
  PJRT_Executable_OutputDimensions_Args dims{};
  dims.executable = executable_;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Executable_OutputDimensions, dims));
  const int64_t* next = dims.dims;
  for (size_t i = 0; i < types.num_output_types; ++i) {
    TPU_ASSIGN_OR_RETURN(DType dtype, FromPjrt(types.output_types[i]));
    const size_t rank = i < dims.num_outputs ? dims.dim_sizes[i] : 0;
    outputs_.push_back({dtype, std::vector<int64_t>(next, next + rank)});
    next += rank;
  }
  return Status();
}

Result<std::string> Executable::name() const {
  PJRT_Executable_Name_Args args{};
  args.executable = executable_;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Executable_Name, args));
  return std::string(args.executable_name, args.executable_name_size);
}

Result<Attributes> Executable::CostAnalysis() const {
  PJRT_Executable_GetCostAnalysis_Args args{};
  args.executable = executable_;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Executable_GetCostAnalysis, args));
  return FromNamedValues(args.properties, args.num_properties);
}

Result<CompiledMemoryStats> Executable::MemoryStats() const {
  PJRT_Executable_GetCompiledMemoryStats_Args args{};
  args.executable = executable_;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Executable_GetCompiledMemoryStats, args));
  CompiledMemoryStats stats;
  stats.generated_code_bytes = args.generated_code_size_in_bytes;
  stats.argument_bytes = args.argument_size_in_bytes;
  stats.output_bytes = args.output_size_in_bytes;
  stats.temp_bytes = args.temp_size_in_bytes;
  stats.alias_bytes = args.alias_size_in_bytes;
  stats.peak_bytes = args.peak_memory_in_bytes;
  return stats;
}

Result<OptimizedProgram> Executable::Optimized() const {
  PJRT_Program program{};
  program.struct_size = PJRT_Program_STRUCT_SIZE;
  PJRT_Executable_OptimizedProgram_Args args{};
  args.executable = executable_;
  args.program = &program;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Executable_OptimizedProgram, args));  // gives the size
  OptimizedProgram result;
  result.bytes.resize(program.code_size);
  program.code = result.bytes.data();
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Executable_OptimizedProgram, args));
  result.bytes.resize(program.code_size);
  result.format.assign(program.format, program.format_size);
  return result;
}

Result<std::string> Executable::OptimizedHlo() const {
  TPU_ASSIGN_OR_RETURN(OptimizedProgram program, Optimized());
  if (program.format == "hlo") return HloText(program.bytes);
  if (program.format == "hlo_with_config") return HloText(HloModuleOf(program.bytes));
  return std::move(program.bytes);
}

Result<std::string> Executable::Serialize() const {
  PJRT_Executable_Serialize_Args args{};
  args.executable = executable_;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Executable_Serialize, args));
  std::string bytes(args.serialized_bytes, args.serialized_bytes_size);
  if (args.serialized_executable_deleter != nullptr) args.serialized_executable_deleter(args.serialized_executable);
  return bytes;
}

Result<std::string> Executable::Fingerprint() const {
  PJRT_Executable_Fingerprint_Args args{};
  args.executable = executable_;
  TPU_RETURN_IF_ERROR(TPU_PJRT_CALL(*plugin_, PJRT_Executable_Fingerprint, args));
  return std::string(args.executable_fingerprint, args.executable_fingerprint_size);
}

}  // namespace tpu::pjrt
