// Which implementation scaled_dot_product_attention takes on the device: ours as one op where it fits, else PyTorch's
// composite.
#include <ATen/Context.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/native/transformers/sdp_utils_cpp.h>

#include "aten/tensor.h"

namespace tpu::aten {
namespace {

// Equal ranks of 4, equal batches, and query heads that are a multiple of the key heads.
bool Fits(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  for (const at::Tensor* t : {&query, &key, &value}) {
    if (!IsTpu(*t) || t->is_nested() || t->layout() != c10::Layout::Strided || t->dim() != 4 || t->sym_numel() == 0)
      return false;
    if (t->scalar_type() != query.scalar_type()) return false;
  }
  return key.sym_size(0) == query.sym_size(0) && value.sym_size(0) == query.sym_size(0) &&
         key.sym_size(1) == value.sym_size(1) && key.sym_size(2) == value.sym_size(2) &&
         key.sym_size(3) == query.sym_size(3) && query.sym_size(1) % key.sym_size(1) == 0;
}

int64_t ChooseAttention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        const std::optional<at::Tensor>&, double, bool, std::optional<double>, bool enable_gqa) {
  const bool fits = Fits(query, key, value) && (enable_gqa || query.sym_size(1) == key.sym_size(1));
  const bool fused = fits && at::globalContext().userEnabledOverrideableSDP();
  return static_cast<int64_t>(fused ? sdp::SDPBackend::overrideable : sdp::SDPBackend::math);
}

}  // namespace
}  // namespace tpu::aten

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &tpu::aten::ChooseAttention)
}  // namespace at::native
