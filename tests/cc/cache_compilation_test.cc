// A program's way to its executable, with the CPU plugin: sharing, looking without compiling, waiting for others.
#include <gtest/gtest.h>

#include <thread>

#include "cache/compilation.h"
#include "cache_directory.h"
#include "pjrt_counted.h"

namespace tpu::cache {
namespace {

using State = Compilation::State;
using Urgency = CompilePool::Urgency;

std::string Scale(int factor) {
  return "module @scale { func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { %c = stablehlo.constant dense<" +
         std::to_string(factor) + ".0> : tensor<2xf32>\n %0 = stablehlo.multiply %a, %c : tensor<2xf32>\n" +
         " return %0 : tensor<2xf32> } }";
}

class Compilations : public pjrt::Counted {
 protected:
  void SetUp() override {
    auto plugin = pjrt::Plugin::Load(pjrt::Env("TORCHTPU_CPU_PLUGIN"));
    if (!plugin.ok()) GTEST_SKIP() << plugin.status().message();
    client = pjrt::Get(pjrt::Client::Create(*plugin));
  }
  void TearDown() override {
    EXPECT_TRUE(CompilePool::Get().AwaitIdle(60));
    caches.clear();
    client.reset();
    Counted::TearDown();
  }
  // Lives until the pool has nothing more to do with it.
  CompileCache* NewCache(double wait_s = 60) {
    Settings settings;
    settings.host_directory = directory.path() + "/host";
    settings.wait_s = wait_s;
    caches.push_back(std::make_unique<CompileCache>(settings));
    return caches.back().get();
  }
  std::shared_ptr<Compilation> Of(CompileCache& cache, const std::string& text) {
    return Compilation::Of(cache, *client, text, {}, {}, "test");
  }
  static State Settled(const Compilation& compilation) {
    EXPECT_TRUE(CompilePool::Get().AwaitIdle(60));
    return compilation.state();
  }
  TemporaryDirectory directory;
  std::vector<std::unique_ptr<CompileCache>> caches;
  std::shared_ptr<pjrt::Client> client;
};

TEST_F(Compilations, OfOneTextAreOne) {
  CompileCache *cache = NewCache(), *other = NewCache();
  auto a = Of(*cache, Scale(2)), b = Of(*cache, Scale(2)), c = Of(*cache, Scale(3)), d = Of(*other, Scale(2));
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_NE(a, d);
  EXPECT_EQ(cache->counters().requests, 3);
  EXPECT_EQ(cache->counters().memory_hits, 1);
  EXPECT_EQ(pjrt::Get(a->Await()), pjrt::Get(b->Await()));
  EXPECT_EQ(cache->counters().compilations, 1);
}

TEST_F(Compilations, LookingDoesNotCompile) {
  CompileCache *cache = NewCache(), *later = NewCache();
  auto compilation = Of(*cache, Scale(2));
  compilation->Load();
  EXPECT_EQ(Settled(*compilation), State::kAbsent);
  EXPECT_EQ(cache->counters().compilations, 0);
  compilation->Compile(Urgency::kBackground);
  EXPECT_EQ(Settled(*compilation), State::kReady);
  EXPECT_EQ(cache->counters().compilations, 1);

  auto loaded = Of(*later, Scale(2));
  loaded->Load();
  EXPECT_EQ(Settled(*loaded), State::kReady);
  EXPECT_EQ(later->counters().host_hits, 1);
}

TEST_F(Compilations, LoadedOrCompiledAtAnyMoment) {
  // Whatever comes between, the one who waits gets it.
  for (int i = 0; i < 30; ++i) {
    CompileCache* cache = NewCache();
    auto compilation = Of(*cache, Scale(10 + i));
    compilation->Load();
    if (i % 3 == 1) compilation->Compile(Urgency::kBackground);
    if (i % 3 == 2) compilation->Compile(Urgency::kNow);
    std::thread other([&] { EXPECT_TRUE(compilation->Await().ok()); });
    EXPECT_TRUE(compilation->Await().ok());
    other.join();
    EXPECT_EQ(cache->counters().compilations, 1);
    EXPECT_TRUE(CompilePool::Get().AwaitIdle(60));
  }
}

TEST_F(Compilations, ABadProgramFailsForAll) {
  CompileCache* cache = NewCache();
  auto compilation = Of(*cache, "module { nonsense }");
  EXPECT_FAILS(compilation->Await(), Code::kInternal, "PJRT_Client_Compile");
  EXPECT_EQ(compilation->state(), State::kFailed);
  EXPECT_FALSE(Of(*cache, "module { nonsense }")->Await().ok());
  EXPECT_EQ(cache->counters().compilations, 1);
  EXPECT_EQ(cache->counters().stored, 0);
}

TEST_F(Compilations, WaitForWhoeverCompilesAndTakeWhatTheyMade) {
  CompileCache *theirs = NewCache(), *ours = NewCache();
  const Key key = theirs->KeyOf(*client, Scale(2), {}, {});
  std::optional<FileLock> lock;
  ASSERT_EQ(theirs->TryLock(key, &lock), FileLock::Outcome::kHeld);
  auto compilation = Of(*ours, Scale(2));
  compilation->Compile(Urgency::kNow);
  // Another program is not held up meanwhile.
  EXPECT_TRUE(Of(*ours, Scale(3))->Await().ok());
  EXPECT_EQ(compilation->state(), State::kPending);

  double seconds = 0;
  auto executable = pjrt::Get(theirs->Compile(*client, Scale(2), {}, &seconds));
  theirs->Keep(key, "test", executable->executable(), seconds);
  lock.reset();
  EXPECT_TRUE(compilation->Await().ok());
  EXPECT_EQ(ours->counters().host_hits, 1);
  EXPECT_EQ(ours->counters().compilations, 1);  // Scale(3)
}

TEST_F(Compilations, WaitNotForEver) {
  CompileCache *theirs = NewCache(), *ours = NewCache(0.05);
  std::optional<FileLock> lock;
  ASSERT_EQ(theirs->TryLock(theirs->KeyOf(*client, Scale(2), {}, {}), &lock), FileLock::Outcome::kHeld);
  EXPECT_TRUE(Of(*ours, Scale(2))->Await().ok());
  EXPECT_EQ(ours->counters().compilations, 1);
}

TEST_F(Compilations, OfAHolderThatDiedAreCompiled) {
  CompileCache *theirs = NewCache(), *ours = NewCache();
  std::optional<FileLock> lock;
  ASSERT_EQ(theirs->TryLock(theirs->KeyOf(*client, Scale(2), {}, {}), &lock), FileLock::Outcome::kHeld);
  auto compilation = Of(*ours, Scale(2));
  compilation->Compile(Urgency::kNow);
  lock.reset();  // as the kernel does, and nothing was kept
  EXPECT_TRUE(compilation->Await().ok());
  EXPECT_EQ(ours->counters().compilations, 1);
}

}  // namespace
}  // namespace tpu::cache
