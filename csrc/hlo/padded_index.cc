// Padding and indices: gather and scatter.
#include <algorithm>

#include "hlo/builder_text.h"
#include "hlo/padded_emitter.h"

namespace tpu::hlo {
namespace {

bool Has(const Ints& list, int64_t value) { return std::find(list.begin(), list.end(), value) != list.end(); }

int64_t VectorDim(const SymbolicProgram::Instruction& i) {
  const auto at = i.Find("index_vector_dim = ");
  return i.pieces.at(*at + 1).number.constant();
}

void NotUniform(Axes& axes) {
  for (Axis& axis : axes)
    for (Factor& f : axis) f.uniform = false;
}

}  // namespace

void PaddedEmitter::Gather(const Instruction& i) {
  std::vector<Laid> operands = Operands(i);
  Laid &x = operands[0], &index = operands[1];
  const Ints offsets = i.Numbers("offset_dims = ["), collapsed = i.Numbers("collapsed_slice_dims = ["),
             batching = i.Numbers("operand_batching_dims = ["),
             index_batching = i.Numbers("start_indices_batching_dims = ["), map = i.Numbers("start_index_map = [");
  const std::vector<Polynomial> slices = i.List("slice_sizes = array<i64: ");
  const int64_t vector_dim = VectorDim(i);
  for (size_t k = 0; k < batching.size(); ++k) lay_.MergeDims(x, batching[k], index, index_batching[k]);
  Axes windows, batches;
  for (int64_t d = 0; d < static_cast<int64_t>(x.axes.size()); ++d) {
    const Polynomial size = SizeOf(x.axes[d]);
    if (Has(map, d)) x = lay_.Linear(std::move(x), d);
    if (Has(collapsed, d) || Has(batching, d)) continue;
    if (slices[d] != size && !slices[d].is_constant()) RefusePadding(i.op, "a slice depends on a size");
    windows.push_back(slices[d] == size ? x.axes[d] : LinearAxis(slices[d]));
    if (slices[d] != size && !IsLinear(x.axes[d])) x = lay_.Linear(std::move(x), d);
  }
  for (int64_t d = 0; d < static_cast<int64_t>(index.axes.size()); ++d)
    if (d != vector_dim) batches.push_back(index.axes[d]);
  Axes axes;
  size_t window = 0, batch = 0;
  for (int64_t d = 0; d < static_cast<int64_t>(ResultSizes(i).size()); ++d)
    axes.push_back(Has(offsets, d) ? windows.at(window++) : batches.at(batch++));
  NotUniform(axes);
  SetResults(i, Instantiate(i, operands), axes);
}

void PaddedEmitter::Scatter(const Instruction& i) {
  std::vector<Laid> operands = Operands(i);
  const size_t count = static_cast<size_t>(i.result_count);
  const Ints window_dims = i.Numbers("update_window_dims = ["), inserted = i.Numbers("inserted_window_dims = ["),
             batching = i.Numbers("input_batching_dims = ["),
             index_batching = i.Numbers("scatter_indices_batching_dims = ["),
             map = i.Numbers("scatter_dims_to_operand_dims = [");
  const int64_t vector_dim = VectorDim(i);
  Laid& index = operands[count];
  std::vector<Laid> arrays(operands.begin(), operands.begin() + static_cast<int64_t>(count)),
      updates(operands.begin() + static_cast<int64_t>(count) + 1, operands.end());
  Axes axes = lay_.Merge(arrays), update_axes = lay_.Merge(updates);
  // One layout for what is counted along together.
  const auto same = [&](Laid& a, int64_t da, Laid& b, int64_t db) {
    Axis merged = lay_.MergeDims(a, da, b, db);
    for (Laid& x : arrays) x = lay_.WithAxes(std::move(x), arrays[0].axes);
    for (Laid& x : updates) x = lay_.WithAxes(std::move(x), updates[0].axes);
    return merged;
  };
  for (int round = 0; round < 2; ++round) {
    for (size_t k = 0; k < batching.size(); ++k) same(arrays[0], batching[k], index, index_batching[k]);
    int64_t next = 0;
    for (int64_t d = 0; d < static_cast<int64_t>(updates[0].axes.size()); ++d) {
      if (Has(window_dims, d)) continue;
      if (next == vector_dim) ++next;
      same(updates[0], d, index, next++);
    }
  }
  size_t window = 0;
  for (int64_t d = 0; d < static_cast<int64_t>(arrays[0].axes.size()); ++d) {
    if (Has(map, d)) {
      for (Laid& x : arrays) x = lay_.Linear(std::move(x), d);
    }
    if (Has(inserted, d) || Has(batching, d)) continue;
    const int64_t u = window_dims.at(window++);
    if (SizeOf(updates[0].axes[u]) == SizeOf(arrays[0].axes[d])) {
      if (Has(map, d)) {
        for (Laid& x : updates) x = lay_.Linear(std::move(x), u);
      } else {
        same(arrays[0], d, updates[0], u);
      }
    } else if (!IsStatic(updates[0].axes[u])) {
      RefusePadding(i.op, "a window depends on a size");
    } else if (!IsLinear(arrays[0].axes[d])) {
      for (Laid& x : arrays) x = lay_.Linear(std::move(x), d);
    }
  }
  axes = arrays[0].axes;
  NotUniform(axes);
  // The padding's updates go nowhere.
  Ints batch_dims;
  for (int64_t d = 0; d < static_cast<int64_t>(index.axes.size()); ++d)
    if (d != vector_dim) batch_dims.push_back(d);
  const bool masks =
      std::any_of(batch_dims.begin(), batch_dims.end(), [&](int64_t d) { return !IsStatic(index.axes[d]); });
  index.value = lay_.Masked(index, batch_dims, b_.ConstInt(-1, index.value.dtype()));
  Instruction changed = i;
  for (Piece& piece : changed.pieces) {
    if (!masks || piece.kind != Piece::Kind::kLiteral) continue;
    for (std::string_view flag : {"indices_are_sorted = true", "unique_indices = true"}) {
      const size_t at = piece.text.find(flag);
      if (at != std::string::npos) piece.text.replace(at + flag.size() - 4, 4, "false");
    }
  }
  for (size_t k = 0; k < count; ++k) {
    operands[k] = arrays[k];
    operands[count + 1 + k] = updates[k];
  }
  SetResults(i, Instantiate(changed, operands), axes);
}

}  // namespace tpu::hlo
