// What the tests of csrc/pjrt share: unwrapping results, and the check that no object outlives a test.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "pjrt/client.h"

namespace tpu::pjrt {

inline std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

template <typename T>
T Get(Result<T> result) {
  if (!result.ok()) {
    ADD_FAILURE() << result.status().message();
    std::exit(1);
  }
  return std::move(result).value();
}

#define EXPECT_FAILS(result, expected_code, words) \
  do { \
    const Status s_ = (result).status(); \
    EXPECT_EQ(static_cast<int>(s_.code()), static_cast<int>(expected_code)); \
    EXPECT_NE(s_.message().find(words), std::string::npos) << s_.message(); \
  } while (0)

class Counted : public testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(Buffer::LiveCount(), 0);
    EXPECT_EQ(Event::LiveCount(), 0);
    EXPECT_EQ(LoadedExecutable::LiveCount(), 0);
    EXPECT_EQ(Client::LiveCount(), 0);
  }
};

}  // namespace tpu::pjrt
