// Assertions on tensors' values. They are checked in debug mode, as indices are; otherwise they cost nothing.
#include "lowering/indexing.h"

namespace tpu::lowering {
namespace {

Results AssertAsync(Builder& b, Value condition) {
  b.CheckTrue(condition, "expected a tensor that is true, found one that is not");
  return {};
}
LOWER("_assert_async", AssertAsync, kExact);

Results AssertAsyncMessage(Builder& b, Value condition, std::string_view message) {
  b.CheckTrue(condition, std::string(message));
  return {};
}
LOWER("_assert_async.msg", AssertAsyncMessage, kExact);

Value FunctionalAssertAsync(Builder& b, Value condition, std::string_view message, Value token) {
  b.CheckTrue(condition, std::string(message));
  return token;
}
LOWER("_functional_assert_async.msg", FunctionalAssertAsync, kExact);

}  // namespace
}  // namespace tpu::lowering
