// Loading plugins: those that are none, and a mock that fails on demand (TORCHTPU_MOCK_PLUGIN).
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "pjrt/call.h"
#include "pjrt/client.h"
#include "pjrt_counted.h"

namespace tpu::pjrt {
namespace {

namespace fs = std::filesystem;

// A copy of the mock in the given mode: plugins are told apart by file.
class Mock : public Counted {
 protected:
  void SetUp() override {
    source = Env("TORCHTPU_MOCK_PLUGIN");
    if (source.empty()) GTEST_SKIP() << "TORCHTPU_MOCK_PLUGIN is not set";
  }
  Result<std::shared_ptr<Plugin>> Load(const std::string& mode) {
    path = testing::TempDir() + "/mock_" + mode + "_" + std::to_string(getpid()) + ".so";
    fs::copy_file(source, path, fs::copy_options::skip_existing);  // never under a library that is in use
    setenv("PJRT_MOCK", mode.c_str(), 1);
    return Plugin::Load(path);
  }
  int LiveErrors() {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    return reinterpret_cast<int (*)()>(dlsym(library, "MockLiveErrors"))();
  }
  std::string source, path;
};

TEST_F(Mock, WrongVersionsAreRefused) {
  auto major = Load("major");
  EXPECT_FAILS(major, Code::kInvalidArgument, "found 1.81");
  EXPECT_NE(major.status().message().find(path), std::string::npos);
  EXPECT_FAILS(Load("small"), Code::kInvalidArgument, "found 0.1 with ");
  EXPECT_FAILS(Load("null"), Code::kInvalidArgument, "GetPjrtApi gave none");
}

TEST_F(Mock, PluginErrorsKeepTheirWordsAndCode) {
  EXPECT_FAILS(Load("init"), Code::kUnavailable, "PJRT_Plugin_Initialize: UNAVAILABLE: mock will not start");
  EXPECT_EQ(LiveErrors(), 0);
  EXPECT_FAILS(Client::Create(Get(Load("create"))), Code::kResourceExhausted,
               "PJRT_Client_Create: RESOURCE_EXHAUSTED: mock has no memory");
  EXPECT_EQ(LiveErrors(), 0);
}

TEST_F(Mock, MissingEntriesAreUnimplemented) {
  auto plugin = Get(Load("bare"));
  EXPECT_FALSE(plugin->Has(&PJRT_Api::PJRT_Compile));
  EXPECT_FAILS(Client::Create(plugin), Code::kUnimplemented,
               "PJRT_Client_PlatformName: expected a plugin with this entry");
}

TEST(PluginTest, BadPathsAreErrors) {
  EXPECT_FAILS(Plugin::Load("/no/such/plugin.so"), Code::kNotFound, "/no/such/plugin.so");
  std::string text = testing::TempDir() + "/not_a_library.so";
  std::ofstream(text) << "hello";
  EXPECT_FAILS(Plugin::Load(text), Code::kInvalidArgument, "expected a shared library");
}

}  // namespace
}  // namespace tpu::pjrt
