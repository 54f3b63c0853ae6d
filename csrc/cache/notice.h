// What the user is told when the cache cannot do its work: a line per kind of trouble, once a process. Never an error.
#pragma once

#include <string>

namespace tpu::cache {

// `kind` names the trouble, in static storage; `message` is shown the first time only.
void Notice(const char* kind, const std::string& message);
// Where they go; stderr until set. Called from any thread, without locks.
void SetNoticeHook(void (*hook)(const std::string& message));

}  // namespace tpu::cache
