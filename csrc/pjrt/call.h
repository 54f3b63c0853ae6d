// The one way into the PJRT C API: TPU_PJRT_CALL fills struct_size, checks that the plugin has the entry, frees the
// error and turns it into a Status "<API>: <CODE>: <the plugin's words>". For files of this folder only.
// Threads: as the API entry itself.
#pragma once

#include <cstddef>

#include "base/status.h"
#include "pjrt/plugin.h"
#include "pjrt_c_api.h"

namespace tpu::pjrt {

template <typename Fn>
bool Plugin::Has(Fn* PJRT_Api::*entry) const {
  auto offset = reinterpret_cast<const char*>(&(api_->*entry)) - reinterpret_cast<const char*>(api_);
  return static_cast<size_t>(offset) + sizeof(Fn*) <= api_->struct_size && api_->*entry != nullptr;
}

// Frees `error`; ok when it is null.
Status TakeError(const PJRT_Api* api, const char* name, PJRT_Error* error);
Status MissingEntry(const Plugin& plugin, const char* name);

template <typename Args>
Status Call(const Plugin& plugin, PJRT_Error* (*PJRT_Api::*entry)(Args*), const char* name, size_t struct_size,
            Args& args) {
  if (!plugin.Has(entry)) return MissingEntry(plugin, name);
  args.struct_size = struct_size;
  PJRT_Error* error = (plugin.api()->*entry)(&args);
  if (error == nullptr) [[likely]]
    return Status();
  return TakeError(plugin.api(), name, error);
}

#define TPU_PJRT_CALL(plugin, Entry, args) \
  ::tpu::pjrt::Call((plugin), &PJRT_Api::Entry, #Entry, Entry##_Args_STRUCT_SIZE, (args))

}  // namespace tpu::pjrt
