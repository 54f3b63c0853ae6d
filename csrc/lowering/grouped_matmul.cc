// Products of groups of rows with a matrix each: the experts of a mixture, grouped by `offs`, the groups' ends.
#include <algorithm>

#include "lowering/lowering.h"

namespace tpu::lowering {
namespace {

DType Accumulator(DType t) { return IsHalf(t) ? DType::kF32 : t; }

// The groups are cut into tiles of `size` places, the last of each group partly used, so the work is that of the places
// plus at most one tile for each group, whatever the groups' sizes.
struct Tiles {
  int64_t size = 0;
  Value begins, ends;  // i32[G]: places of each group
  Value tile_ends;     // i32[G]: tiles up to and with each group
  Value count;         // i32
};

Tiles MakeTiles(Builder& b, Value offs, int64_t places) {
  int64_t groups = offs.dim(0);
  Tiles t;
  t.size = 8;
  while (t.size < 256 && t.size * groups < places) t.size *= 2;
  t.ends = b.Cast(offs, DType::kI32);
  Value zero = b.Full(Ints{1}, 0.0, DType::kI32);
  t.begins = b.Concat(std::vector<Value>{zero, b.SliceDim(t.ends, 0, 0, groups - 1)}, 0);
  Value tiles = (b.Max(t.ends - t.begins, 0.0) + static_cast<double>(t.size - 1)) / static_cast<double>(t.size);
  // A running sum over few groups as a triangular sum.
  Value earlier = b.Le(b.Iota(Ints{groups, groups}, 1, DType::kI32), b.Iota(Ints{groups, groups}, 0, DType::kI32));
  t.tile_ends = b.Sum(b.Select(earlier, b.Reshape(tiles, Ints{1, groups}), 0.0), Ints{1}, false);
  t.count = b.Reshape(b.SliceDim(t.tile_ends, 0, groups - 1, groups), Ints{});
  return t;
}

struct Tile {
  Value group, place, end;  // i32: its group, its first place, the end of its group
};

Tile TileAt(Builder& b, const Tiles& t, Value i) {
  auto pick = [&](Value list, Value at) {
    return b.Reshape(b.DynamicSlice(list, std::vector<Value>{at}, Ints{1}), Ints{});
  };
  int64_t groups = t.ends.dim(0);
  Value group = b.Sum(b.Cast(b.Ge(i, t.tile_ends), DType::kI32), Ints{0}, false);
  group = b.Min(group, static_cast<double>(groups - 1));
  Value first_tile = b.Select(b.Eq(group, 0.0), 0.0, pick(t.tile_ends, b.Max(group - 1.0, 0.0)));
  return {group, pick(t.begins, group) + (i - first_tile) * static_cast<double>(t.size), pick(t.ends, group)};
}

// Calls body(tile, accumulator) for every tile in order.
Value ForEachTile(Builder& b, const Tiles& t, Value accumulator, const std::function<Value(const Tile&, Value)>& body) {
  std::vector<Value> result = b.While(
      std::vector<Value>{b.ConstInt(0, DType::kI32), accumulator},
      [&](Builder&, std::span<const Value> v) { return b.Lt(v[0], t.count); },
      [&](Builder&, std::span<const Value> v) {
        return std::vector<Value>{v[0] + 1.0, body(TileAt(b, t, v[0]), v[1])};
      });
  return result[1];
}

Value PadRows(Builder& b, Value x, int64_t more) {
  return b.Pad(x, b.ConstLike(0, x), Ints(x.rank(), 0), Ints{more, 0});
}

// [M, K] x [G, K, N] -> [M, N]. A tile may run into the next group's rows, which that group's tiles write again.
Value RowsTimesGroups(Builder& b, Value x, Value weights, Value offs) {
  int64_t m = x.dim(0), k = x.dim(1), n = weights.dim(2);
  Tiles t = MakeTiles(b, offs, m);
  x = PadRows(b, x, t.size);
  Value zero = b.ConstInt(0, DType::kI32);
  Value out = ForEachTile(b, t, b.Full(Ints{m + t.size, n}, 0.0, x.dtype()), [&](const Tile& tile, Value sum) {
    Value rows = b.DynamicSlice(x, std::vector<Value>{tile.place, zero}, Ints{t.size, k});
    Value weight = b.DynamicSlice(weights, std::vector<Value>{tile.group, zero, zero}, Ints{1, k, n});
    Value product = b.MatMul(rows, b.Reshape(weight, Ints{k, n}));
    return b.DynamicUpdateSlice(sum, product, std::vector<Value>{tile.place, zero});
  });
  // Rows that no group owns are zero.
  int64_t groups = offs.dim(0);
  Value end = b.Reshape(b.SliceDim(t.ends, 0, groups - 1, groups), Ints{});
  Value owned = b.Lt(b.Iota(Ints{m, 1}, 0, DType::kI32), end);
  return b.Select(owned, b.SliceDim(out, 0, 0, m), 0.0);
}

// [M, K] x [K, N] -> [G, M, N], each group a range of K.
Value ContractGroups(Builder& b, Value x, Value y, Value offs) {
  int64_t m = x.dim(0), k = x.dim(1), n = y.dim(1), groups = offs.dim(0);
  Tiles t = MakeTiles(b, offs, k);
  x = b.SwapDims(PadRows(b, b.SwapDims(x, 0, 1), t.size), 0, 1);
  y = PadRows(b, y, t.size);
  Value zero = b.ConstInt(0, DType::kI32);
  return ForEachTile(b, t, b.Full(Ints{groups, m, n}, 0.0, Accumulator(x.dtype())), [&](const Tile& tile, Value sum) {
    Value owned = b.Lt(b.Iota(t.size, DType::kI32) + tile.place, tile.end);
    Value left = b.DynamicSlice(x, std::vector<Value>{zero, tile.place}, Ints{m, t.size});
    Value right = b.DynamicSlice(y, std::vector<Value>{tile.place, zero}, Ints{t.size, n});
    // Both sides: what lies past the group may not be finite.
    left = b.Select(b.Reshape(owned, Ints{1, t.size}), left, 0.0);
    right = b.Select(b.Reshape(owned, Ints{t.size, 1}), right, 0.0);
    std::vector<Value> at = {tile.group, zero, zero};
    Value product = b.Reshape(b.MatMul(left, right, sum.dtype()), Ints{1, m, n});
    return b.DynamicUpdateSlice(sum, b.DynamicSlice(sum, at, Ints{1, m, n}) + product, at);
  });
}

Value GroupedMatMul(Builder& b, Value x, Value y, std::optional<Value> offs, std::optional<Value> bias) {
  Value out;
  if (!offs) {
    out = b.MatMul(x, y);
  } else if (x.rank() == 2 && y.rank() == 2) {
    out = ContractGroups(b, x, y, *offs);
  } else if (x.rank() == 2) {
    out = RowsTimesGroups(b, x, y, *offs);
  } else {
    // [G, M, K] x [K, N], each group a range of N: the transpose of the case above.
    out = b.SwapDims(RowsTimesGroups(b, b.SwapDims(y, 0, 1), b.SwapDims(x, 1, 2), *offs), 0, 1);
  }
  return bias ? out + *bias : out;
}

// PyTorch's meta kernel takes bfloat16 and 16-byte strides only, as the CUDA one does; the CPU's takes what this does.
Value GroupedMm(Builder& b, Value x, Value y, std::optional<Value> offs, std::optional<Value> bias,
                std::optional<DType> out_dtype) {
  return b.Cast(GroupedMatMul(b, x, y, offs, bias), out_dtype.value_or(x.dtype()));
}
LOWER("_grouped_mm", GroupedMm, kExact | kOwnShape);

// Scales are [M] and [G, N] (2-D x 3-D), [G * M] and [G * N] for 2-D x 2-D; the float8 values are exact in bfloat16.
Value ScaledGroupedMm(Builder& b, Value x, Value y, Value scale_x, Value scale_y, std::optional<Value> offs,
                      std::optional<Value> bias, std::optional<Value> /*scale_result*/,
                      std::optional<DType> /*out_dtype*/, bool /*use_fast_accum*/) {
  Value out;
  Value wide_x = b.Cast(x, DType::kF32), wide_y = b.Cast(y, DType::kF32);
  if (x.rank() == 2 && y.rank() == 2) {
    out = GroupedMatMul(b, wide_x, wide_y, offs, std::nullopt);
    int64_t groups = out.dim(0);
    out = out * b.Reshape(scale_x, Ints{groups, out.dim(1), 1}) * b.Reshape(scale_y, Ints{groups, 1, out.dim(2)});
  } else {
    // A row scale multiplies rows of x, a column scale columns of y, wherever the groups lie.
    Ints rows(x.dims().begin(), x.dims().end() - 1), columns(y.dims().begin(), y.dims().end() - 2);
    columns.push_back(y.dim(-1));
    out = GroupedMatMul(b, wide_x * b.Unsqueeze(b.Reshape(scale_x, rows), -1),
                        wide_y * b.Unsqueeze(b.Reshape(scale_y, columns), -2), offs, std::nullopt);
  }
  return bias ? out + *bias : out;
}
LOWER("_scaled_grouped_mm", ScaledGroupedMm, kExact);

}  // namespace
}  // namespace tpu::lowering
