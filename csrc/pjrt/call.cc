#include "pjrt/call.h"

#include <string>

namespace tpu::pjrt {
namespace {

struct CodeName {
  Code code;
  const char* name;
};

CodeName Translate(PJRT_Error_Code code) {
  switch (code) {
    case PJRT_Error_Code_OK: return {Code::kInternal, "OK"};  // an error that says OK is one all the same
    case PJRT_Error_Code_CANCELLED: return {Code::kUnavailable, "CANCELLED"};
    case PJRT_Error_Code_UNKNOWN: return {Code::kInternal, "UNKNOWN"};
    case PJRT_Error_Code_INVALID_ARGUMENT: return {Code::kInvalidArgument, "INVALID_ARGUMENT"};
    case PJRT_Error_Code_DEADLINE_EXCEEDED: return {Code::kDeadlineExceeded, "DEADLINE_EXCEEDED"};
    case PJRT_Error_Code_NOT_FOUND: return {Code::kNotFound, "NOT_FOUND"};
    case PJRT_Error_Code_ALREADY_EXISTS: return {Code::kInvalidArgument, "ALREADY_EXISTS"};
    case PJRT_Error_Code_PERMISSION_DENIED: return {Code::kUnavailable, "PERMISSION_DENIED"};
    case PJRT_Error_Code_RESOURCE_EXHAUSTED: return {Code::kResourceExhausted, "RESOURCE_EXHAUSTED"};
    case PJRT_Error_Code_FAILED_PRECONDITION: return {Code::kInvalidArgument, "FAILED_PRECONDITION"};
    case PJRT_Error_Code_ABORTED: return {Code::kUnavailable, "ABORTED"};
    case PJRT_Error_Code_OUT_OF_RANGE: return {Code::kOutOfRange, "OUT_OF_RANGE"};
    case PJRT_Error_Code_UNIMPLEMENTED: return {Code::kUnimplemented, "UNIMPLEMENTED"};
    case PJRT_Error_Code_INTERNAL: return {Code::kInternal, "INTERNAL"};
    case PJRT_Error_Code_UNAVAILABLE: return {Code::kUnavailable, "UNAVAILABLE"};
    case PJRT_Error_Code_DATA_LOSS: return {Code::kInternal, "DATA_LOSS"};
    case PJRT_Error_Code_UNAUTHENTICATED: return {Code::kUnavailable, "UNAUTHENTICATED"};
  }
  return {Code::kInternal, "UNKNOWN"};
}

}  // namespace

Status TakeError(const PJRT_Api* api, const char* name, PJRT_Error* error) {
  if (error == nullptr) return Status();
  PJRT_Error_Message_Args message{};
  message.struct_size = PJRT_Error_Message_Args_STRUCT_SIZE;
  message.error = error;
  api->PJRT_Error_Message(&message);

  PJRT_Error_GetCode_Args code{};
  code.struct_size = PJRT_Error_GetCode_Args_STRUCT_SIZE;
  code.error = error;
  code.code = PJRT_Error_Code_UNKNOWN;
  if (PJRT_Error* nested = api->PJRT_Error_GetCode(&code); nested != nullptr) {
    PJRT_Error_Destroy_Args destroy{PJRT_Error_Destroy_Args_STRUCT_SIZE, nullptr, nested};
    api->PJRT_Error_Destroy(&destroy);
  }
  auto [ours, code_name] = Translate(code.code);
  std::string text = std::string(name) + ": " + code_name + ": ";
  if (message.message != nullptr) text.append(message.message, message.message_size);

  PJRT_Error_Destroy_Args destroy{PJRT_Error_Destroy_Args_STRUCT_SIZE, nullptr, error};
  api->PJRT_Error_Destroy(&destroy);
  return Status(ours, std::move(text));
}

Status MissingEntry(const Plugin& plugin, const char* name) {
  return Status(Code::kUnimplemented, std::string(name) + ": expected a plugin with this entry, found PJRT C API " +
                                          std::to_string(plugin.api_major()) + "." +
                                          std::to_string(plugin.api_minor()) + " without it in " + plugin.path() +
                                          ". Use a newer plugin.");
}

}  // namespace tpu::pjrt
