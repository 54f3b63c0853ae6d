// Keys and entries: what changes a key, and that no damaged bytes pass for an entry.
#include <gtest/gtest.h>

#include <cstring>

#include "cache/environment.h"
#include "cache/settings.h"
#include "cache_directory.h"

namespace tpu::cache {
namespace {

TEST(KeyTest, NamesAndValuesChangeIt) {
  const Key base = KeyBuilder().Add("a", "1").Add("b", "2").Build();
  EXPECT_EQ(base, KeyBuilder().Add("a", "1").Add("b", "2").Build());
  EXPECT_NE(base.id, KeyBuilder().Add("a", "1").Add("b", "3").Build().id);
  EXPECT_NE(base.id, KeyBuilder().Add("a", "1").Add("c", "2").Build().id);
  EXPECT_NE(base.id, KeyBuilder().Add("b", "2").Add("a", "1").Build().id);
  EXPECT_NE(base.id, KeyBuilder().Add("a", "1\nb=2").Build().id);
  const std::string text(100000, 'x');
  const Key longer = KeyBuilder().Add("program", text).Build();
  EXPECT_LT(longer.fields.size(), 100u);
  EXPECT_NE(longer.id, KeyBuilder().Add("program", text + "x").Build().id);
}

TEST(EntryTest, RoundTrips) {
  const Entry entry = NumberedEntry(3, 1000);
  const std::string bytes = Encode(entry);
  auto read = Decode(bytes, entry.key);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->executable, entry.executable);
  EXPECT_EQ(read->name, "number3");
  EXPECT_EQ(read->compile_seconds, 0.75);
  auto header = DecodeHeader(bytes);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->size_bytes(), bytes.size());
  EXPECT_EQ(header->key, entry.key.id);
}

TEST(EntryTest, EveryFlippedByteAndEveryLengthIsNoticed) {
  const Entry entry = NumberedEntry(5, 64);
  const std::string good = Encode(entry);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_FALSE(Decode(bad, entry.key).ok()) << "byte " << i;
    EXPECT_FALSE(Decode(good.substr(0, i), entry.key).ok()) << "length " << i;
  }
  EXPECT_FALSE(Decode(good + "x", entry.key).ok());
  EXPECT_TRUE(Decode(good, entry.key).ok());
}

TEST(EntryTest, AnotherProgramsEntryIsRefused) {
  const std::string bytes = Encode(NumberedEntry(1, 10));
  auto read = Decode(bytes, NumberedKey(2));
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.status().message().find("another program's"), std::string::npos);
}

TEST(EntryTest, AnotherFormatIsNamed) {
  std::string bytes = Encode(NumberedEntry(1, 10));
  const uint32_t format = kEntryFormat + 1;
  std::memcpy(bytes.data() + 8, &format, sizeof format);
  auto read = Decode(bytes, NumberedKey(1));
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.status().message().find("expected format 1, found 2"), std::string::npos) << read.status().message();
}

TEST(EnvironmentTest, CpuFeaturesCountAndFrequenciesDoNot) {
  const std::string one = "vendor_id : A\nmodel name : B\ncpu MHz : 1000\nflags : sse avx\n\nprocessor : 1\n";
  const std::string slower = "vendor_id : A\nmodel name : B\ncpu MHz : 900\nflags : sse avx\n";
  const std::string fewer = "vendor_id : A\nmodel name : B\ncpu MHz : 1000\nflags : sse\n";
  EXPECT_EQ(DescribeCpu(one), DescribeCpu(slower));
  EXPECT_NE(DescribeCpu(one), DescribeCpu(fewer));
  EXPECT_NE(DescribeCpu(one), "");
}

TEST(EnvironmentTest, LibrariesAreToldApart) {
  const std::string self = BuildIdentity("/proc/self/exe");
  EXPECT_EQ(self, BuildIdentity("/proc/self/exe"));
  EXPECT_EQ(self.size(), 32u);
  EXPECT_NE(self, BuildIdentity("/bin/sh"));
  EXPECT_EQ(BuildIdentity("/nowhere"), "");
}

Settings Read(const std::map<std::string, std::string>& variables) {
  return Settings::Read([&](const char* name) -> const char* {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

TEST(SettingsTest, FindTheDirectory) {
  EXPECT_EQ(Read({{"HOME", "/home/a"}}).host_directory, "/home/a/.cache/torchtpu");
  EXPECT_EQ(Read({{"HOME", "/home/a"}, {"XDG_CACHE_HOME", "/x"}}).host_directory, "/x/torchtpu");
  EXPECT_EQ(Read({{"HOME", "/home/a"}, {"XDG_CACHE_HOME", "relative"}}).host_directory, "/home/a/.cache/torchtpu");
  EXPECT_EQ(Read({{"XDG_CACHE_HOME", "/x"}, {"TORCHTPU_CACHE_DIR", "/mine"}}).host_directory, "/mine");
  const Settings off = Read({{"HOME", "/home/a"}, {"TORCHTPU_CACHE", "0"}, {"TORCHTPU_CACHE_URL", "/s"}});
  EXPECT_EQ(off.host_directory, "");
  EXPECT_EQ(off.shared_url, "");
}

TEST(SettingsTest, SharedDirectoriesAndTrust) {
  EXPECT_EQ(Read({{"TORCHTPU_CACHE_URL", "/s"}}).shared_directory(), "/s");
  EXPECT_EQ(Read({{"TORCHTPU_CACHE_URL", "file:///s"}}).shared_directory(), "/s");
  EXPECT_EQ(Read({{"TORCHTPU_CACHE_URL", "s3://b/p"}}).shared_directory(), std::nullopt);
  EXPECT_FALSE(Read({{"TORCHTPU_CACHE_URL", "/s"}}).trust_shared);
  EXPECT_FALSE(Read({{"TORCHTPU_CACHE_URL", "/s"}, {"TORCHTPU_CACHE_TRUST", "/s2"}}).trust_shared);
  EXPECT_TRUE(Read({{"TORCHTPU_CACHE_URL", "/s"}, {"TORCHTPU_CACHE_TRUST", "/other,/s"}}).trust_shared);
}

TEST(SettingsTest, Sizes) {
  EXPECT_EQ(ParseBytes("123"), 123u);
  EXPECT_EQ(ParseBytes("4G"), uint64_t{4} << 30);
  EXPECT_EQ(ParseBytes("512 MiB"), uint64_t{512} << 20);
  EXPECT_EQ(ParseBytes("2kb"), 2048u);
  for (const char* bad : {"", "x", "4X", "-1", "4GG", "99999999999T"}) EXPECT_EQ(ParseBytes(bad), std::nullopt) << bad;
  EXPECT_EQ(Read({{"TORCHTPU_CACHE_MAX_BYTES", "1M"}}).max_bytes, uint64_t{1} << 20);
  EXPECT_EQ(Read({{"TORCHTPU_CACHE_MAX_BYTES", "many"}}).max_bytes, Settings().max_bytes);
  EXPECT_EQ(Read({{"TORCHTPU_CACHE_WAIT_SECONDS", "0.5"}}).wait_s, 0.5);
  EXPECT_EQ(Read({{"TORCHTPU_CACHE_WAIT_SECONDS", "nan"}}).wait_s, Settings().wait_s);
}

}  // namespace
}  // namespace tpu::cache
