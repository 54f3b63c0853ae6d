// Runs what a Builder built on the CPU plugin, with numbers as doubles in and out.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "hlo/builder.h"
#include "pjrt/client.h"

namespace tpu::hlo {

inline std::shared_ptr<pjrt::Client> CpuClient() {
  static std::shared_ptr<pjrt::Client> client = [] {
    const char* path = std::getenv("TORCHTPU_CPU_PLUGIN");
    auto plugin = pjrt::Plugin::Load(path ? path : "");
    if (!plugin.ok()) return std::shared_ptr<pjrt::Client>();
    auto made = pjrt::Client::Create(*plugin);
    return made.ok() ? *made : std::shared_ptr<pjrt::Client>();
  }();
  return client;
}

class Runner {
 public:
  // A parameter of the given element type holding `values` (converted on the device from float64 by Cast).
  Value Input(std::vector<double> values, Ints dims, DType dtype = DType::kF32) {
    Value raw = b.Parameter({DType::kF64, dims});
    inputs_.push_back({std::move(values), std::move(dims)});
    return b.Cast(raw, dtype);
  }
  Value Input(std::vector<double> values, DType dtype = DType::kF32) {
    Ints dims{static_cast<int64_t>(values.size())};
    return Input(std::move(values), std::move(dims), dtype);
  }

  // Each result as float64; complex ones are given through Real and Imag by the caller.
  std::vector<std::vector<double>> Run(std::vector<Value> results) {
    for (Value& v : results) v = b.Cast(v, DType::kF64);
    std::string text = b.Finish(results);
    pjrt::CompileOptions options;
    options.xla_flags = {{"xla_cpu_enable_fast_min_max", false}};
    auto executable = CpuClient()->Compile(text, options);
    if (!executable.ok()) {
      ADD_FAILURE() << executable.status().message() << "\n" << text;
      return std::vector<std::vector<double>>(results.size());
    }
    const pjrt::Device& device = *CpuClient()->devices()[0];
    std::vector<pjrt::Buffer> buffers;
    for (auto& [values, dims] : inputs_)
      buffers.push_back(
          CpuClient()->FromHost(values.data(), DType::kF64, dims, device, pjrt::HostSemantics::kDuringCall).value());
    std::vector<const pjrt::Buffer*> arguments;
    for (auto& buffer : buffers) arguments.push_back(&buffer);
    auto outputs = (*executable)->Execute(arguments, &device);
    if (!outputs.ok()) {
      ADD_FAILURE() << outputs.status().message();
      return std::vector<std::vector<double>>(results.size());
    }
    std::vector<std::vector<double>> out;
    for (auto& buffer : *outputs) {
      std::vector<double> values(buffer.dense_size_bytes() / sizeof(double));
      auto done = buffer.ToHost(values.data(), buffer.dense_size_bytes());
      EXPECT_TRUE(done.ok() && done->Await().ok());
      out.push_back(std::move(values));
    }
    return out;
  }
  std::vector<double> Run(Value result) { return Run(std::vector<Value>{result})[0]; }

  Builder b;

 private:
  std::vector<std::pair<std::vector<double>, Ints>> inputs_;
};

}  // namespace tpu::hlo
