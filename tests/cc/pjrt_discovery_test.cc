// Choosing a plugin, on made-up machines.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "pjrt/discovery.h"

namespace tpu::pjrt {
namespace {

namespace fs = std::filesystem;

class Discovery : public testing::Test {
 protected:
  void SetUp() override {
    root = fs::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root);
    roots = {(root / "dev").string(), (root / "pci").string()};
    cpu = Touch("cpu.so");
    libtpu = Touch("libtpu.so");
  }
  std::string Touch(const std::string& name, const std::string& text = "") {
    fs::create_directories((root / name).parent_path());
    std::ofstream(root / name) << text;
    return (root / name).string();
  }
  void AddPci(const std::string& vendor, const std::string& pci_class) {
    Touch("pci/0000:00:05.0/vendor", vendor + "\n");
    Touch("pci/0000:00:05.0/class", pci_class + "\n");
  }
  Result<PluginChoice> Choose(const std::string& setting) { return Discover(setting, cpu, libtpu, roots); }
  void ExpectError(const Result<PluginChoice>& choice, const std::string& words) {
    ASSERT_FALSE(choice.ok());
    EXPECT_NE(choice.status().message().find(words), std::string::npos) << choice.status().message();
  }

  fs::path root;
  HardwareRoots roots;
  std::string cpu, libtpu;
};

TEST_F(Discovery, WithoutATpuAutoIsCpu) {
  auto choice = Choose("");
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->kind, PluginKind::kCpu);
  EXPECT_EQ(choice->path, cpu);
  EXPECT_NE(choice->reason.find("no TPU"), std::string::npos);
}

TEST_F(Discovery, WithoutATpuTpuIsAnErrorWithAWayOut) {
  ExpectError(Choose("tpu"), "Set TORCHTPU_PJRT=cpu");
  ExpectError(Choose("tpu"), "0x1ae0");
}

TEST_F(Discovery, AccelDeviceIsATpu) {
  Touch("dev/accel0");
  EXPECT_EQ(Choose("auto").value().kind, PluginKind::kTpu);
  EXPECT_EQ(Choose("tpu").value().path, libtpu);
  EXPECT_EQ(Choose("cpu").value().kind, PluginKind::kCpu);
}

TEST_F(Discovery, VfioNeedsAGoogleAccelerator) {
  Touch("dev/vfio/vfio");
  AddPci("0x1ae0", "0x120000");
  EXPECT_EQ(FindTpu(roots), "");
  Touch("dev/vfio/0");
  EXPECT_EQ(FindTpu(roots), roots.dev + "/vfio/0");
  AddPci("0x1ae0", "0x020000");  // Google's network card
  EXPECT_EQ(FindTpu(roots), "");
  AddPci("0x10de", "0x120000");
  EXPECT_EQ(FindTpu(roots), "");
}

TEST_F(Discovery, ATpuWithoutLibtpuIsAnError) {
  Touch("dev/accel0");
  ExpectError(Discover("auto", cpu, "", roots), "pip install libtpu");
  ExpectError(Discover("tpu", cpu, "/no/libtpu.so", roots), "/no/libtpu.so");
}

TEST_F(Discovery, PathsAreTakenAsTheyAre) {
  auto choice = Choose(libtpu);
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(choice->kind, PluginKind::kOther);
  EXPECT_EQ(choice->path, libtpu);
  ExpectError(Choose("/no/such.so"), "/no/such.so");
  ExpectError(Choose("gpu"), "expected auto, cpu, tpu, cuda or the path");
  ExpectError(Discover("cpu", "", "", roots), "pip install xla-cpu-pjrt");
}

TEST_F(Discovery, CudaPluginIsFoundInSitePackages) {
  cpu = Touch("site-packages/xla_plugins/xla_cpu_pjrt/cpu.so");
  unsetenv("TORCHTPU_CUDA_PLUGIN");
  ExpectError(Choose("cuda"), "TORCHTPU_CUDA_PLUGIN");
  std::string cuda = Touch("site-packages/jax_plugins/xla_cuda12/xla_cuda_plugin.so");
  EXPECT_EQ(Choose("cuda").value().path, cuda);
}

TEST_F(Discovery, EnvironmentOfTheUserStays) {
  setenv("TPU_MIN_LOG_LEVEL", "0", 1);
  unsetenv("TPU_SKIP_MDS_QUERY");
  PrepareTpuEnvironment(roots);
  EXPECT_STREQ(std::getenv("TPU_MIN_LOG_LEVEL"), "0");
  EXPECT_STREQ(std::getenv("TPU_SKIP_MDS_QUERY"), "1");
}

}  // namespace
}  // namespace tpu::pjrt
