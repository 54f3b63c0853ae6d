// Random state: a Philox key (seed) and counter (offset) per generator.
//
// Ownership: a generator's state is shared by the generators that graphsafe_set_state tied to it.
// Threads: the generator's public mutex_ guards its state; NextState takes it, all other callers must (as in PyTorch).
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>
#include <string>

namespace tpu::aten {

// Takes `words` 32-bit random words: returns the state to draw them with, seed and offset as 16 bytes, and moves the offset
// past them, rounded up to whole Philox blocks of four words. Without a generator, the device's default one.
std::string NextState(const std::optional<at::Generator>& generator, c10::DeviceIndex device, int64_t words);

// The device's default generator, alive as long as the process; -1 is the current device. Opens no client.
const at::Generator& DefaultGenerator(c10::DeviceIndex device);
at::Generator CreateGenerator(c10::DeviceIndex device);
// Seeds every device's default generator, those that do not exist yet included.
void SeedDefaultGenerators(uint64_t seed);

}  // namespace tpu::aten
