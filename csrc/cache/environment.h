// What an executable depends on besides its program: the plugin, the device, and the CPU that machine code is made for.
#pragma once

#include <string>

#include "cache/key.h"
#include "pjrt/client.h"

namespace tpu::cache {

// The fields of every key of this client. Reads the plugin's build identity; once per client is enough.
KeyBuilder EnvironmentOf(const pjrt::Client& client);

// The linker's build id of a shared library, or its size and a fingerprint of samples of it; "" when it cannot be read.
std::string BuildIdentity(const std::string& library);

// The model and the features of this machine's processors, and how many may be used: code is split for that many.
std::string HostCpu();
// From the text of /proc/cpuinfo.
std::string DescribeCpu(const std::string& cpuinfo);

}  // namespace tpu::cache
