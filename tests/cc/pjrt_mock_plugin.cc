// A PJRT plugin that fails on demand. The environment variable PJRT_MOCK is read by GetPjrtApi:
//   major           claims another major version
//   small           claims a table too short for us
//   null            GetPjrtApi gives null
//   init            PJRT_Plugin_Initialize fails with UNAVAILABLE
//   create          PJRT_Client_Create fails with RESOURCE_EXHAUSTED
//   bare            works, but has no entry beyond the ones below
// A copy of the file per mode makes a plugin per mode, since a plugin is loaded once per path.
// Errors alive are counted and can be read through the exported MockLiveErrors.
#include <cstdlib>
#include <cstring>
#include <string>

#include "pjrt_c_api.h"

struct PJRT_Error {
  PJRT_Error_Code code;
  std::string message;
};

namespace {

int live_errors = 0;
std::string mode;

PJRT_Error* Fail(PJRT_Error_Code code, const char* message) {
  ++live_errors;
  return new PJRT_Error{code, message};
}

void ErrorDestroy(PJRT_Error_Destroy_Args* args) {
  if (args->error == nullptr) return;
  delete args->error;
  --live_errors;
}

void ErrorMessage(PJRT_Error_Message_Args* args) {
  args->message = args->error->message.data();
  args->message_size = args->error->message.size();
}

PJRT_Error* ErrorGetCode(PJRT_Error_GetCode_Args* args) {
  args->code = args->error->code;
  return nullptr;
}

PJRT_Error* PluginInitialize(PJRT_Plugin_Initialize_Args* args) {
  if (args->struct_size != PJRT_Plugin_Initialize_Args_STRUCT_SIZE) {
    return Fail(PJRT_Error_Code_INTERNAL, "struct_size was not filled in");
  }
  return mode == "init" ? Fail(PJRT_Error_Code_UNAVAILABLE, "mock will not start") : nullptr;
}

PJRT_Error* ClientCreate(PJRT_Client_Create_Args* args) {
  if (mode == "create") return Fail(PJRT_Error_Code_RESOURCE_EXHAUSTED, "mock has no memory");
  args->client = reinterpret_cast<PJRT_Client*>(&live_errors);
  return nullptr;
}

PJRT_Error* ClientDestroy(PJRT_Client_Destroy_Args*) { return nullptr; }

}  // namespace

extern "C" __attribute__((visibility("default"))) int MockLiveErrors() { return live_errors; }

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static PJRT_Api api;
  const char* wish = std::getenv("PJRT_MOCK");
  mode = wish != nullptr ? wish : "";
  if (mode == "null") return nullptr;
  std::memset(&api, 0, sizeof api);
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  if (mode == "small") api.struct_size = PJRT_STRUCT_SIZE(PJRT_Api, PJRT_Client_Create);
  api.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  api.pjrt_api_version.major_version = mode == "major" ? PJRT_API_MAJOR + 1 : PJRT_API_MAJOR;
  api.pjrt_api_version.minor_version = mode == "small" ? 1 : PJRT_API_MINOR;
  api.PJRT_Error_Destroy = ErrorDestroy;
  api.PJRT_Error_Message = ErrorMessage;
  api.PJRT_Error_GetCode = ErrorGetCode;
  api.PJRT_Plugin_Initialize = PluginInitialize;
  api.PJRT_Client_Create = ClientCreate;
  api.PJRT_Client_Destroy = ClientDestroy;
  return &api;
}
