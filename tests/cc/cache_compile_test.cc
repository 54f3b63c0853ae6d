// The tiers with the CPU plugin (TORCHTPU_CPU_PLUGIN): what is found, what is not, and that trouble means compiling.
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "cache/compile_cache.h"
#include "cache/hook_store.h"
#include "cache_directory.h"
#include "pjrt_counted.h"

namespace tpu::cache {
namespace {

namespace fs = std::filesystem;
using pjrt::CompileOptions;

constexpr const char* kAdd =
    "module @add { func.func @main(%a: tensor<2xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<2xf32>) -> "
    "tensor<2xf32> { %0 = stablehlo.add %a, %b : tensor<2xf32>\n return %0 : tensor<2xf32> } }";

class Tiers : public pjrt::Counted {
 protected:
  void SetUp() override {
    client = NewClient(1);
    if (!client) GTEST_SKIP() << "no CPU plugin";
  }
  void TearDown() override {
    client.reset();
    SetStoreOpener(nullptr);
    Counted::TearDown();
  }
  static std::shared_ptr<pjrt::Client> NewClient(int64_t devices) {
    auto plugin = pjrt::Plugin::Load(pjrt::Env("TORCHTPU_CPU_PLUGIN"));
    if (!plugin.ok()) return nullptr;
    return pjrt::Get(pjrt::Client::Create(*plugin, {{"cpu_device_count", devices}}));
  }
  Settings HostOnly() const {
    Settings settings;
    settings.host_directory = directory.path() + "/host";
    return settings;
  }
  Key AddKey(CompileCache& cache) { return cache.KeyOf(*client, kAdd, CompileOptions(), {}); }
  // Finds the program or compiles and keeps it; runs what can wait.
  std::unique_ptr<pjrt::LoadedExecutable> Get(CompileCache& cache) {
    const Key key = AddKey(cache);
    if (auto found = cache.Find(*client, key)) return found;
    double seconds = 0;
    auto compiled = pjrt::Get(cache.Compile(*client, kAdd, CompileOptions(), &seconds));
    if (auto rest = cache.Keep(key, "add", compiled->executable(), seconds)) rest();
    return compiled;
  }
  static std::vector<float> Run(pjrt::Client& on, const pjrt::LoadedExecutable& executable, size_t device) {
    const float values[] = {1, 2};
    const int64_t dims[] = {2};
    const pjrt::Device& where = *on.devices()[device];
    pjrt::Buffer a = pjrt::Get(on.FromHost(values, DType::kF32, dims, where, pjrt::HostSemantics::kDuringCall));
    pjrt::Buffer b = pjrt::Get(on.FromHost(values, DType::kF32, dims, where, pjrt::HostSemantics::kDuringCall));
    const pjrt::Buffer* args[] = {&a, &b};
    auto out = pjrt::Get(executable.Execute(args, &where));
    EXPECT_TRUE(a.IsDeleted()) << "donated";
    std::vector<float> read(2);
    EXPECT_TRUE(pjrt::Get(out[0].ToHost(read.data(), 8)).Await().ok());
    return read;
  }
  std::string EntryPath(CompileCache& cache) {
    const std::string hex = AddKey(cache).id.Hex();
    return directory.path() + "/host/" + hex.substr(0, 2) + "/" + hex.substr(2);
  }
  TemporaryDirectory directory;
  std::shared_ptr<pjrt::Client> client;
};

TEST_F(Tiers, TheSecondProcessCompilesNothing) {
  CompileCache first(HostOnly()), second(HostOnly());
  Get(first);
  EXPECT_EQ(first.counters().compilations, 1);
  EXPECT_EQ(first.counters().stored, 1);
  auto executable = Get(second);
  EXPECT_EQ(second.counters().compilations, 0);
  EXPECT_EQ(second.counters().host_hits, 1);
  EXPECT_GT(second.counters().bytes_read, 0);
  EXPECT_EQ(Run(*client, *executable, 0), (std::vector<float>{2, 4}));
}

TEST_F(Tiers, ALoadedProgramRunsOnAnyDeviceOfAnyClient) {
  CompileCache first(HostOnly()), second(HostOnly());
  Get(first);
  client = NewClient(3);
  auto executable = Get(second);
  EXPECT_EQ(second.counters().host_hits, 1);
  for (size_t device = 0; device < 3; ++device) {
    EXPECT_EQ(Run(*client, *executable, device), (std::vector<float>{2, 4}));
  }
}

TEST_F(Tiers, EachPartOfTheKeyCounts) {
  CompileCache cache(HostOnly());
  const Key base = AddKey(cache);
  EXPECT_EQ(base, AddKey(cache));
  const std::pair<int, int> donated[] = {{0, 0}};
  CompileOptions flag;
  flag.xla_flags["xla_backend_optimization_level"] = int64_t{1};
  EXPECT_NE(base.id, cache.KeyOf(*client, std::string(kAdd) + " ", CompileOptions(), {}).id);
  EXPECT_NE(base.id, cache.KeyOf(*client, kAdd, flag, {}).id);
  EXPECT_NE(base.id, cache.KeyOf(*client, kAdd, CompileOptions(), donated).id);
  for (const char* field : {"format=", "platform=cpu", "platform_version=", "pjrt_api=", "plugin_build=", "device=cpu",
                            "cpu=", "options=", "donations=", "program=", "xla_flags="}) {
    EXPECT_NE(base.fields.find(field), std::string::npos) << field << " in\n" << base.fields;
  }
  EXPECT_EQ(base.fields.find("plugin_build=\n"), std::string::npos);
  // One program for one device, wherever it is; several devices are named.
  auto more = NewClient(4);
  EXPECT_EQ(base.id, cache.KeyOf(*more, kAdd, CompileOptions(), {}).id);
  CompileOptions replicas;
  replicas.num_replicas = 2;
  EXPECT_NE(cache.KeyOf(*client, kAdd, replicas, {}).id, cache.KeyOf(*more, kAdd, replicas, {}).id);
}

TEST_F(Tiers, DamagedEntriesAreRemovedAndCompiledAgain) {
  std::string good;
  {
    CompileCache cache(HostOnly());
    Get(cache);
    std::ifstream file(EntryPath(cache), std::ios::binary);
    good.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::vector<std::string> bad = {"", "TORCHTPU", good.substr(0, good.size() / 2), good + "x", std::string(5000, 'x')};
  for (size_t i = 9; i < good.size(); i += good.size() / 5) {
    bad.push_back(good);
    bad.back()[i] = static_cast<char>(bad.back()[i] ^ 0x40);
  }
  // Sound as an entry, but not something that the plugin can load.
  {
    CompileCache cache(HostOnly());
    bad.push_back(Encode({AddKey(cache), "add", 1, "not an executable"}));
  }
  for (const std::string& bytes : bad) {
    CompileCache cache(HostOnly()), after(HostOnly());
    std::ofstream(EntryPath(cache), std::ios::binary) << bytes;
    EXPECT_EQ(Run(*client, *Get(cache), 0), (std::vector<float>{2, 4}));
    EXPECT_EQ(cache.counters().bad_entries, 1);
    EXPECT_EQ(cache.counters().compilations, 1);
    Get(after);
    EXPECT_EQ(after.counters().host_hits, 1);
  }
}

TEST_F(Tiers, WithoutAPlaceForThemProgramsAreCompiled) {
  std::ofstream(directory.path() + "/file") << "x";
  Settings nowhere, off;
  nowhere.host_directory = directory.path() + "/file/host";
  for (const Settings& settings : {nowhere, off}) {
    CompileCache cache(settings);
    EXPECT_EQ(Run(*client, *Get(cache), 0), (std::vector<float>{2, 4}));
    EXPECT_EQ(cache.counters().compilations, 1);
    EXPECT_EQ(cache.counters().stored, 0);
    std::optional<FileLock> lock;
    EXPECT_EQ(cache.TryLock(AddKey(cache), &lock), FileLock::Outcome::kUnavailable);
  }
}

TEST_F(Tiers, ASmallAllowanceIsKept) {
  Settings settings = HostOnly();
  settings.max_bytes = 100;
  CompileCache cache(settings);
  Get(cache);
  EXPECT_EQ(cache.counters().stored, 0);
  EXPECT_TRUE(cache.host()->List().empty());
}

TEST_F(Tiers, TheSharedTierServesAnotherHost) {
  Settings here = HostOnly(), there;
  here.shared_url = there.shared_url = directory.path() + "/shared";
  there.host_directory = directory.path() + "/there";
  CompileCache first(here), second(there), third(there);
  Get(first);
  EXPECT_EQ(first.counters().stored, 2);
  EXPECT_EQ(Run(*client, *Get(second), 0), (std::vector<float>{2, 4}));
  EXPECT_EQ(second.counters().shared_hits, 1);
  EXPECT_EQ(second.counters().stored, 1) << "the host keeps what the shared tier gave";
  Get(third);
  EXPECT_EQ(third.counters().host_hits, 1);
  EXPECT_EQ(third.counters().compilations + second.counters().compilations, 0);
}

TEST_F(Tiers, ASharedDirectoryThatOthersCanWriteNeedsToBeNamed) {
  const std::string path = directory.path() + "/shared";
  fs::create_directory(path);
  fs::permissions(path, fs::perms::all);
  Settings settings;
  settings.shared_url = path;
  CompileCache refused(settings);
  EXPECT_EQ(refused.shared(), nullptr);
  EXPECT_EQ(Run(*client, *Get(refused), 0), (std::vector<float>{2, 4}));
  settings.trust_shared = true;
  CompileCache allowed(settings), again(settings);
  Get(allowed);
  Get(again);
  EXPECT_EQ(again.counters().shared_hits, 1);
}

TEST_F(Tiers, AnyStoreServesThroughHooks) {
  std::map<std::string, std::string> kept;
  std::string opened;
  SetStoreOpener([&](const std::string& url) -> Result<StoreHooks> {
    opened = url;
    StoreHooks hooks;
    hooks.read = [&](const std::string& name) -> Result<std::optional<std::string>> {
      const auto it = kept.find(name);
      return it == kept.end() ? std::nullopt : std::optional(it->second);
    };
    hooks.write = [&](const std::string& name, const std::string& bytes) {
      kept[name] = bytes;
      return Status();
    };
    hooks.remove = [&](const std::string& name) { kept.erase(name); };
    return hooks;
  });
  Settings settings;
  settings.shared_url = "mock://bucket/path";
  CompileCache first(settings), second(settings);
  Get(first);
  EXPECT_EQ(opened, "mock://bucket/path");
  EXPECT_EQ(kept.size(), 1u);
  Get(second);
  EXPECT_EQ(second.counters().shared_hits, 1);
  kept.begin()->second.resize(50);
  CompileCache third(settings);
  Get(third);
  EXPECT_EQ(third.counters().bad_entries, 1);
  EXPECT_EQ(third.counters().compilations, 1);
}

TEST_F(Tiers, AStoreThatFailsIsAMiss) {
  SetStoreOpener([](const std::string&) -> Result<StoreHooks> {
    const Status down(Code::kUnavailable, "the network is down");
    return StoreHooks{[=](const std::string&) { return down; },
                      [=](const std::string&, const std::string&) { return down; }, [](const std::string&) {}};
  });
  Settings settings = HostOnly();
  settings.shared_url = "mock://bucket";
  CompileCache cache(settings);
  EXPECT_EQ(Run(*client, *Get(cache), 0), (std::vector<float>{2, 4}));
  EXPECT_EQ(cache.counters().compilations, 1);
  SetStoreOpener([](const std::string& url) -> Result<StoreHooks> { return Status(Code::kUnavailable, url); });
  settings.host_directory += "2";
  CompileCache unopened(settings);
  EXPECT_EQ(Run(*client, *Get(unopened), 0), (std::vector<float>{2, 4}));
}

}  // namespace
}  // namespace tpu::cache
