// csrc/pjrt on the real CPU plugin (TORCHTPU_CPU_PLUGIN). Every test ends with no live object.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <numeric>
#include <thread>

#include "pjrt/call.h"
#include "pjrt/client.h"
#include "pjrt_counted.h"

namespace tpu::pjrt {
namespace {

namespace fs = std::filesystem;

constexpr auto kDuringCall = HostSemantics::kDuringCall;

std::string Add(const std::string& type, const std::string& first_attribute = "") {
  return "module @add { func.func @main(%a: " + type + " " + first_attribute + ", %b: " + type + ") -> " + type +
         " { %0 = stablehlo.add %a, %b : " + type + "\n return %0 : " + type + " } }";
}

class Cpu : public Counted {
 protected:
  void SetUp() override {
    auto plugin = Plugin::Load(Env("TORCHTPU_CPU_PLUGIN"));
    if (!plugin.ok()) GTEST_SKIP() << plugin.status().message();
    client = Get(Client::Create(*plugin, {{"cpu_device_count", int64_t{2}}}));
  }
  void TearDown() override {
    client.reset();
    Counted::TearDown();
  }
  const Device& device(size_t i = 0) { return *client->devices()[i]; }
  Buffer Floats(const std::vector<float>& values, const std::vector<int64_t>& dims, size_t i = 0) {
    return Get(client->FromHost(values.data(), DType::kF32, dims, device(i), kDuringCall));
  }
  static std::vector<float> Read(const Buffer& buffer) {
    std::vector<float> values(buffer.dense_size_bytes() / sizeof(float));
    Status status = Get(buffer.ToHost(values.data(), buffer.dense_size_bytes())).Await();
    EXPECT_TRUE(status.ok()) << status.message();
    return values;
  }
  std::shared_ptr<Client> client;
};

TEST_F(Cpu, DescribesItself) {
  EXPECT_EQ(client->platform_name(), "cpu");
  ASSERT_EQ(client->devices().size(), 2u);
  EXPECT_EQ(device(1).id(), 1);
  EXPECT_EQ(device().kind(), "cpu");
  EXPECT_EQ(client->FindDevice(device(1).get()), &device(1));
  EXPECT_EQ(client->FindDevice(nullptr), nullptr);
  EXPECT_EQ(client->plugin().api_major(), 0);
  EXPECT_FALSE(client->plugin().stablehlo_version().empty());
  EXPECT_TRUE(client->plugin().Has(&PJRT_Api::PJRT_Client_Compile));
  EXPECT_FALSE(Get(device().memories()).empty());
  EXPECT_FAILS(device().memory_stats(), Code::kUnimplemented, "PJRT_Device_MemoryStats: UNIMPLEMENTED: ");
}

TEST_F(Cpu, PluginIsLoadedOncePerFile) {
  std::string path = Env("TORCHTPU_CPU_PLUGIN");
  std::string link = testing::TempDir() + "/same_plugin.so";
  fs::remove(link);
  fs::create_symlink(path, link);
  EXPECT_EQ(Get(Plugin::Load(path)), Get(Plugin::Load(link)));
}

TEST_F(Cpu, RoundTripsEveryDType) {
  for (int t = 0; t <= static_cast<int>(DType::kF8E8M0FNU); ++t) {
    const DType dtype = static_cast<DType>(t);
    std::vector<unsigned char> in(6 * ItemSize(dtype));
    std::iota(in.begin(), in.end(), 1);
    if (IsBool(dtype)) in.assign(6, 1);
    const int64_t dims[] = {2, 3};
    Buffer buffer = Get(client->FromHost(in.data(), dtype, dims, device(), kDuringCall));
    EXPECT_EQ(Name(buffer.dtype()), Name(dtype));
    EXPECT_EQ(std::vector<int64_t>(buffer.dims().begin(), buffer.dims().end()), (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(buffer.dense_size_bytes(), in.size());
    EXPECT_GE(buffer.size_bytes(), in.size());
    std::vector<unsigned char> out(in.size());
    EXPECT_TRUE(Get(buffer.ToHost(out.data(), out.size())).Await().ok());
    EXPECT_EQ(in, out) << Name(dtype);
  }
}

TEST_F(Cpu, HoldsScalarsAndEmptyArrays) {
  Buffer scalar = Floats({7}, {});
  EXPECT_TRUE(scalar.dims().empty());
  EXPECT_EQ(Read(scalar), std::vector<float>{7});
  Buffer empty = Floats({}, {0, 3});
  EXPECT_EQ(empty.dense_size_bytes(), 0u);
  EXPECT_TRUE(Read(empty).empty());
}

TEST_F(Cpu, DoneIsCalledExactlyOnce) {
  alignas(64) static float value = 1;
  for (auto semantics : {kDuringCall, HostSemantics::kUntilTransferCompletes, HostSemantics::kZeroCopy}) {
    auto calls = std::make_shared<std::atomic<int>>(0);
    auto called = std::make_shared<std::promise<void>>();
    {
      Buffer b = Get(client->FromHost(&value, DType::kF32, {}, device(), semantics, [calls, called] {
        if (calls->fetch_add(1) == 0) called->set_value();
      }));
      EXPECT_TRUE(b.ready().Await().ok());
      EXPECT_EQ(Read(b), std::vector<float>{1});
    }
    called->get_future().wait();
    EXPECT_EQ(calls->load(), 1);
  }
  const int64_t bad[] = {-1};
  int calls = 0;
  auto failed = client->FromHost(&value, DType::kF32, bad, device(), HostSemantics::kZeroCopy, [&] { ++calls; });
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(calls, 1);
}

TEST_F(Cpu, ZeroCopyAliasesAlignedMemory) {
  alignas(64) static float values[64] = {5};
  const int64_t dims[] = {64};
  Buffer b = Get(client->FromHost(values, DType::kF32, dims, device(), HostSemantics::kZeroCopy));
  EXPECT_TRUE(b.ready().Await().ok());
  EXPECT_EQ(Get(b.UnsafePointer()), static_cast<const void*>(values));
}

TEST_F(Cpu, ToHostChecksTheRoom) {
  Buffer b = Floats({1, 2}, {2});
  float out[2];
  EXPECT_FAILS(b.ToHost(out, 4), Code::kInvalidArgument, "expected room for 8 bytes, found 4");
}

TEST_F(Cpu, ToHostOfADeletedBufferFails) {
  Buffer b = Floats({1, 2}, {2});
  b.Delete();
  EXPECT_TRUE(b.IsDeleted());
  EXPECT_EQ(b.size_bytes(), 0u);
  float out[2];
  auto copy = b.ToHost(out, sizeof out);
  EXPECT_FALSE(copy.ok() && copy->Await().ok());
  EXPECT_FALSE(b.ready().Await().ok());
}

TEST_F(Cpu, CopiesBetweenDevices) {
  Buffer a = Floats({1, 2}, {2});
  Buffer b = Get(a.CopyToDevice(device(1)));
  EXPECT_EQ(&a.device(), &device(0));
  EXPECT_EQ(&b.device(), &device(1));
  EXPECT_EQ(Read(b), (std::vector<float>{1, 2}));
}

TEST_F(Cpu, OutOfMemoryIsResourceExhausted) {
  const int64_t dims[] = {int64_t{1} << 45};
  EXPECT_FAILS(client->Uninitialized(DType::kF32, dims, device()), Code::kResourceExhausted, "RESOURCE_EXHAUSTED");
  const int64_t small[] = {4};
  EXPECT_EQ(Get(client->Uninitialized(DType::kF32, small, device())).dense_size_bytes(), 16u);
}

TEST_F(Cpu, PortableProgramRunsOnAnyDevice) {
  auto exe = Get(client->Compile(Add("tensor<2xf32>"), {}));
  EXPECT_EQ(exe->num_outputs(), 1u);
  EXPECT_EQ(exe->executable().outputs().front(), (TensorType{DType::kF32, {2}}));
  for (size_t d = 0; d < 2; ++d) {
    Buffer a = Floats({1, 2}, {2}, d);
    const Buffer* args[] = {&a, &a};
    Event done;
    auto out = Get(exe->Execute(args, &device(d), {}, &done));
    EXPECT_TRUE(done.Await().ok());
    EXPECT_TRUE(done.IsReady());
    EXPECT_EQ(&out[0].device(), &device(d));
    EXPECT_EQ(Read(out[0]), (std::vector<float>{2, 4}));
  }
}

TEST_F(Cpu, FixedDeviceNeedsNoDeviceAtExecute) {
  CompileOptions options;
  options.device_ordinal = 1;
  auto exe = Get(client->Compile(Add("tensor<2xf32>"), options));
  ASSERT_EQ(exe->addressable_devices().size(), 1u);
  EXPECT_EQ(exe->addressable_devices()[0], &device(1));
  Buffer a = Floats({1, 2}, {2}, 1);
  const Buffer* args[] = {&a, &a};
  EXPECT_EQ(Read(Get(exe->Execute(args, nullptr))[0]), (std::vector<float>{2, 4}));
}

TEST_F(Cpu, WrongArgumentsAreErrors) {
  auto exe = Get(client->Compile(Add("tensor<2xf32>"), {}));
  Buffer two = Floats({1, 2}, {2});
  Buffer three = Floats({1, 2, 3}, {3});
  const Buffer* few[] = {&two};
  EXPECT_FAILS(exe->Execute(few, &device()), Code::kInvalidArgument,
               "PJRT_LoadedExecutable_Execute: INVALID_ARGUMENT: ");
  const Buffer* large[] = {&two, &three};
  EXPECT_FAILS(exe->Execute(large, &device()), Code::kInvalidArgument, "incompatible size");
}

TEST_F(Cpu, BadProgramIsAnError) {
  auto exe = client->Compile("module { nonsense }", {});
  EXPECT_FALSE(exe.ok());
  EXPECT_NE(exe.status().message().find("PJRT_Client_Compile: "), std::string::npos);
  CompileOptions options;
  options.xla_flags["xla_no_such_flag"] = true;
  EXPECT_FAILS(client->Compile(Add("tensor<2xf32>"), options), Code::kInvalidArgument, "xla_no_such_flag");
}

TEST_F(Cpu, DonationConsumesTheArgumentUnlessSpared) {
  auto exe = Get(client->Compile(Add("tensor<64xf32>", "{tf.aliasing_output = 0 : i32}"), {}));
  const std::vector<float> ones(64, 1);
  Buffer a = Floats(ones, {64});
  Buffer b = Floats(ones, {64});
  const Buffer* args[] = {&a, &b};
  const int64_t spare[] = {0};
  auto kept = Get(exe->Execute(args, &device(), spare));
  EXPECT_EQ(Read(kept[0]), std::vector<float>(64, 2));
  EXPECT_FALSE(a.IsDeleted());
  EXPECT_EQ(Read(a), ones);

  auto taken = Get(exe->Execute(args, &device()));
  EXPECT_EQ(Read(taken[0]), std::vector<float>(64, 2));
  EXPECT_TRUE(a.IsDeleted());
  EXPECT_EQ(a.dims().size(), 1u);
  EXPECT_FALSE(b.IsDeleted());
  EXPECT_FAILS(exe->Execute(args, &device()), Code::kInvalidArgument, "deleted or donated");
}

TEST_F(Cpu, ManyArgumentsAndOutputs) {
  constexpr int kCount = 100;  // beyond the arrays on the stack
  std::string params, results, types;
  for (int i = 0; i < kCount; ++i) {
    const std::string comma = i == 0 ? "" : ", ";
    params += comma + "%a" + std::to_string(i) + ": tensor<f32>";
    results += comma + "%a" + std::to_string(i);
    types += comma + "tensor<f32>";
  }
  auto exe = Get(client->Compile(
      "module { func.func @main(" + params + ") -> (" + types + ") { return " + results + " : " + types + " } }", {}));
  std::vector<Buffer> buffers;
  std::vector<const Buffer*> args;
  for (int i = 0; i < kCount; ++i) buffers.push_back(Floats({static_cast<float>(i)}, {}));
  for (const Buffer& b : buffers) args.push_back(&b);
  auto out = Get(exe->Execute(args, &device()));
  ASSERT_EQ(out.size(), static_cast<size_t>(kCount));
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(Read(out[static_cast<size_t>(i)])[0], static_cast<float>(i));
}

TEST_F(Cpu, NoOutputs) {
  auto exe = Get(client->Compile("module { func.func @main() { return } }", {}));
  EXPECT_EQ(exe->num_outputs(), 0u);
  EXPECT_TRUE(Get(exe->Execute({}, &device())).empty());
}

TEST_F(Cpu, ReplicasReduceTogether) {
  CompileOptions options;
  options.num_replicas = 2;
  options.device_assignment = {0, 1};
  auto exe = Get(client->Compile(R"(module { func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
      %0 = "stablehlo.all_reduce"(%a) ({
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %s = stablehlo.add %x, %y : tensor<f32>
          stablehlo.return %s : tensor<f32>
      }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<2xf32>) -> tensor<2xf32>
      return %0 : tensor<2xf32> } })",
                                 options));
  ASSERT_EQ(exe->addressable_devices().size(), 2u);
  Buffer a = Floats({1, 2}, {2}, 0);
  Buffer b = Floats({10, 20}, {2}, 1);
  const std::vector<const Buffer*> args[] = {{&a}, {&b}};
  std::vector<Event> done;
  auto out = Get(exe->ExecuteOnAll(args, {}, &done));
  ASSERT_EQ(done.size(), 2u);
  for (const Event& event : done) EXPECT_TRUE(event.Await().ok());
  for (const auto& list : out) EXPECT_EQ(Read(list[0]), (std::vector<float>{11, 22}));
  EXPECT_FAILS(exe->ExecuteOnAll(std::span(args).first(1)), Code::kInvalidArgument, "expected arguments for 2 devices");
}

TEST_F(Cpu, SerializedProgramRuns) {
  std::string bytes;
  {
    auto exe = Get(client->Compile(Add("tensor<2xf32>"), {}));
    bytes = Get(exe->executable().Serialize());
  }
  auto exe = Get(client->Deserialize(bytes));
  Buffer a = Floats({1, 2}, {2});
  const Buffer* args[] = {&a, &a};
  EXPECT_EQ(Read(Get(exe->Execute(args, &device()))[0]), (std::vector<float>{2, 4}));
  EXPECT_FALSE(client->Deserialize("garbage").ok());
}

TEST_F(Cpu, ExecutableTellsAboutItself) {
  auto exe = Get(client->Compile(Add("tensor<4xf32>"), {}));
  const Executable& e = exe->executable();
  EXPECT_EQ(std::get<float>(Get(e.CostAnalysis()).at("flops")), 4.0f);
  auto stats = Get(e.MemoryStats());
  EXPECT_EQ(stats.argument_bytes, 32);
  EXPECT_EQ(stats.output_bytes, 16);
  EXPECT_NE(Get(e.OptimizedHlo()).find("f32[4]{0} add("), std::string::npos) << Get(e.OptimizedHlo());
  EXPECT_EQ(Get(e.name()), "add");
  EXPECT_FALSE(Get(e.Fingerprint()).empty());
}

TEST_F(Cpu, EventsCallBackOnce) {
  auto exe = Get(client->Compile(Add("tensor<2xf32>"), {}));
  Buffer a = Floats({1, 2}, {2});
  const Buffer* args[] = {&a, &a};
  auto out = Get(exe->Execute(args, &device()));
  std::promise<bool> promise;
  out[0].ready().OnReady([&](Status s) { promise.set_value(s.ok()); });  // the event dies before the call, perhaps
  EXPECT_TRUE(promise.get_future().get());
  bool called = false;
  Event().OnReady([&](Status s) { called = s.ok(); });
  EXPECT_TRUE(called);
  EXPECT_FALSE(Event::Failed(Status(Code::kInternal, "x")).Await().ok());
}

TEST_F(Cpu, ExecutesFromManyThreads) {
  auto exe = Get(client->Compile(Add("tensor<64xf32>"), {}));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Buffer a = Floats(std::vector<float>(64, static_cast<float>(t)), {64});
      const Buffer* args[] = {&a, &a};
      for (int i = 0; i < 200; ++i) {
        auto out = Get(exe->Execute(args, &device()));
        EXPECT_EQ(Read(out[0])[63], static_cast<float>(2 * t));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST_F(Cpu, BuffersKeepTheirClientAlive) {
  Buffer a = Floats({3}, {1});
  client.reset();
  EXPECT_EQ(Client::LiveCount(), 1);
  EXPECT_EQ(Read(a), std::vector<float>{3});
}

TEST(CompileOptionsTest, EachFieldChangesTheBytes) {
  const std::string base = Serialize(CompileOptions{});
  EXPECT_EQ(base, Serialize(CompileOptions{}));
  std::vector<CompileOptions> all(7);
  all[0].num_replicas = 2;
  all[1].num_partitions = 2;
  all[2].device_ordinal = 0;
  all[3].portable = false;
  all[4].xla_flags["xla_backend_optimization_level"] = int64_t{1};
  all[5].use_spmd = true;
  all[6].device_assignment = {1};
  for (const auto& options : all) EXPECT_NE(base, Serialize(options));
}

}  // namespace
}  // namespace tpu::pjrt
