// Compiling for TPUs that are not there, with the real libtpu (TORCHTPU_LIBTPU); skipped without it.
#include <gtest/gtest.h>

#include <cstdlib>

#include "pjrt/discovery.h"
#include "pjrt/topology.h"

namespace tpu::pjrt {
namespace {

constexpr const char* kAdd = R"(module @add {
  func.func @main(%a: tensor<128x128xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<128x128xf32>)
      -> tensor<128x128xf32> {
    %0 = stablehlo.add %a, %b : tensor<128x128xf32>
    return %0 : tensor<128x128xf32>
  } })";

class TopologyTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("TORCHTPU_LIBTPU");
    if (path == nullptr || *path == '\0') GTEST_SKIP() << "TORCHTPU_LIBTPU is not set";
    PrepareTpuEnvironment();
    auto loaded = Plugin::Load(path);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    plugin = *loaded;
  }
  std::shared_ptr<Plugin> plugin;
};

TEST_F(TopologyTest, CompilesForATpu) {
  struct Case {
    const char* name;
    const char* kind;
    size_t devices;
  };
  for (const Case& c : {Case{"v5e:2x2", "TPU v5 lite", 4}, Case{"tpu7x:2x2x1", "TPU7x", 8}}) {
    auto topology = Topology::Create(plugin, c.name);
    ASSERT_TRUE(topology.ok()) << topology.status().message();
    EXPECT_EQ((*topology)->platform_name(), "tpu");
    ASSERT_EQ((*topology)->devices().size(), c.devices);
    EXPECT_EQ((*topology)->devices()[0].kind(), c.kind);
    EXPECT_TRUE((*topology)->devices()[0].attributes().contains("coords"));

    auto exe = (*topology)->Compile(kAdd, {});
    ASSERT_TRUE(exe.ok()) << exe.status().message();
    EXPECT_EQ((*exe)->outputs().front(), (TensorType{DType::kF32, {128, 128}}));
    auto stats = (*exe)->MemoryStats();
    ASSERT_TRUE(stats.ok());
    EXPECT_EQ(stats->argument_bytes, 2 * 128 * 128 * 4);
    EXPECT_EQ(stats->alias_bytes, 128 * 128 * 4);
    auto hlo = (*exe)->OptimizedHlo();
    ASSERT_TRUE(hlo.ok());
    EXPECT_NE(hlo->find(" add("), std::string::npos) << *hlo;
  }
}

TEST_F(TopologyTest, UnknownNameIsAnError) {
  auto topology = Topology::Create(plugin, "nonsense");
  ASSERT_FALSE(topology.ok());
  EXPECT_EQ(static_cast<int>(topology.status().code()), static_cast<int>(Code::kInvalidArgument));
  EXPECT_NE(topology.status().message().find("[topology \"nonsense\"]"), std::string::npos);
}

}  // namespace
}  // namespace tpu::pjrt
