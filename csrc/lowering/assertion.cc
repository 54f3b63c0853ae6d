// Assertions on tensors' values. They are checked in debug mode, as indices are; otherwise they cost nothing.
#include "lowering/indexing.h"

namespace tpu::lowering {
namespace {

void Check(Builder& b, Value condition) { b.CheckIndex(b.Cast(b.Cast(condition, DType::kBool), DType::kI64), 0, 1, 2); }

Results AssertAsync(Builder& b, Value condition) {
  Check(b, condition);
  return {};
}
LOWER("_assert_async", AssertAsync, kExact);

Results AssertAsyncMessage(Builder& b, Value condition, std::string_view /*message*/) {
  return AssertAsync(b, condition);
}
LOWER("_assert_async.msg", AssertAsyncMessage, kExact);

Value FunctionalAssertAsync(Builder& b, Value condition, std::string_view /*message*/, Value token) {
  Check(b, condition);
  return token;
}
LOWER("_functional_assert_async.msg", FunctionalAssertAsync, kExact);

}  // namespace
}  // namespace tpu::lowering
