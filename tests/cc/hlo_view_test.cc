// View plans against plain loops: thousands of random geometries, and the shape of the plans for common ones.
#include <gtest/gtest.h>

#include "hlo_view_geometries.h"

namespace tpu::hlo {
namespace {

using Kind = ViewStep::Kind;

constexpr int kRandomGeometries = 20000;

std::vector<Kind> Kinds(const std::vector<ViewStep>& steps) {
  std::vector<Kind> kinds;
  for (const ViewStep& step : steps) kinds.push_back(step.kind);
  return kinds;
}
std::vector<Kind> ReadKinds(const Geometry& g) { return Kinds(PlanRead(g.base_dims, g.view)); }

bool Gathers(const std::vector<ViewStep>& steps) {
  return std::any_of(steps.begin(), steps.end(), [](const ViewStep& s) { return s.kind == Kind::kGather; });
}

// Rows do not reach into one another, by falling stride.
bool Overlaps(const View& view) {
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] > 1 && view.strides[i] > 0) dims.emplace_back(view.strides[i], view.sizes[i]);
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (auto [stride, size] : dims) {
    if (stride <= reach) return true;
    reach += (size - 1) * stride;
  }
  return false;
}

void ExpectReads(const Geometry& g) {
  Array base = Iota(g.base_dims, 1);
  ASSERT_EQ(Run(base, PlanRead(g.base_dims, g.view)), ExpectedRead(base, g.view)) << Show(g);
}

void ExpectWrites(const Geometry& g) {
  Array base = Iota(g.base_dims, 1), update = Iota(g.view.sizes, 100000);
  Array result = RunWrite(base, update, PlanWrite(g.base_dims, g.view));
  ASSERT_EQ(result.dims, g.base_dims) << Show(g);
  ASSERT_TRUE(IsWrite(base, g.view, update, result)) << Show(g);
}

TEST(ViewPlan, ReadsRandomGeometries) {
  GeometryMaker maker(1);
  int gathers = 0, overlaps = 0;
  for (int i = 0; i < kRandomGeometries;) {
    Geometry g = maker.Next();
    if (Count(g.view.sizes) == 0) continue;
    ++i;
    SCOPED_TRACE(Show(g));
    ASSERT_NO_THROW(ExpectReads(g));
    if (HasFatalFailure()) return;
    bool gather = Gathers(PlanRead(g.base_dims, g.view));
    gathers += gather;
    overlaps += Overlaps(g.view);
    ASSERT_TRUE(!gather || Overlaps(g.view));
  }
  RecordProperty("gathers", gathers);
  EXPECT_GT(overlaps, kRandomGeometries / 100);
  EXPECT_GT(gathers, 0);
}

TEST(ViewPlan, WritesRandomGeometries) {
  GeometryMaker maker(2);
  for (int i = 0; i < kRandomGeometries;) {
    Geometry g = maker.Next();
    if (Count(g.view.sizes) == 0 || Extent(g.view) > g.numel()) continue;
    ++i;
    SCOPED_TRACE(Show(g));
    ASSERT_NO_THROW(ExpectWrites(g));
    if (HasFatalFailure()) return;
    ASSERT_EQ(Gathers(PlanWrite(g.base_dims, g.view).base), Overlaps(g.view));
  }
}

TEST(ViewPlan, PredicatesAgreeWithLoops) {
  GeometryMaker maker(3);
  int covering = 0, contiguous = 0;
  for (int i = 0; i < kRandomGeometries; ++i) {
    Geometry g = maker.Next();
    std::vector<int> hits(g.numel(), 0);
    int64_t extent = 0, position = 0;
    bool row_major = true, beyond = false;
    ForEachIndex(g.view.sizes, [&](const Ints& index) {
      int64_t at = g.view.offset + Dot(index, g.view.strides);
      extent = std::max(extent, at + 1);
      row_major &= at == position++;
      beyond |= at >= g.numel();
      if (at < g.numel()) ++hits[at];
    });
    if (Count(g.view.sizes) == 0) row_major = g.view.offset == 0;
    bool covers = !beyond && std::all_of(hits.begin(), hits.end(), [](int n) { return n == 1; });
    ASSERT_EQ(Extent(g.view), extent) << Show(g);
    ASSERT_EQ(IsContiguous(g.view), row_major) << Show(g);
    ASSERT_EQ(CoversAll(g.view, g.numel()), covers) << Show(g);
    covering += covers;
    contiguous += row_major;
  }
  EXPECT_GT(covering, 100);
  EXPECT_GT(contiguous, 100);
}

TEST(ViewPlan, CommonReadsAreAsShortAsTheyCanBe) {
  using K = std::vector<Kind>;
  const Geometry x({8, 6, 10, 4});
  const K slice{Kind::kSlice}, select{Kind::kSlice, Kind::kReshape};
  EXPECT_EQ(ReadKinds(x), K{});
  EXPECT_EQ(ReadKinds(x.Permute({0, 3, 1, 2})), K{Kind::kTranspose});
  EXPECT_EQ(ReadKinds(x.Permute({3, 2, 1, 0})), K{Kind::kTranspose});
  EXPECT_EQ(ReadKinds(Geometry({1, 6, 10, 4}).Permute({0, 3, 1, 2})), K{Kind::kTranspose});  // channels last, batch 1
  EXPECT_EQ(ReadKinds(Geometry({8, 6, 10, 1}).Permute({0, 3, 1, 2})), K{Kind::kReshape});
  EXPECT_EQ(ReadKinds(x.Slice(1, 2, 5)), slice);
  EXPECT_EQ(ReadKinds(x.Slice(3, 1, 3)), slice);
  EXPECT_EQ(ReadKinds(x.Slice(0, 1, 8, 3).Slice(1, 0, 6, 4).Slice(2, 1, 10, 7).Slice(3, 0, 4, 2)), slice);
  EXPECT_EQ(ReadKinds(Geometry({10, 10}).Slice(1, 0, 10, 3)), slice);
  EXPECT_EQ(ReadKinds(Geometry({1, 10, 1, 10}).Slice(3, 2, 9)), slice);
  for (int64_t dim = 0; dim < 4; ++dim) EXPECT_EQ(ReadKinds(x.Select(dim, 3)), select);
  EXPECT_EQ(ReadKinds(x.Select(2, 3).Permute({2, 0, 1})), (K{Kind::kSlice, Kind::kReshape, Kind::kTranspose}));
  EXPECT_EQ(ReadKinds(Geometry({5, 1}).Expand(1, 7)), K{Kind::kBroadcast});
  EXPECT_EQ(ReadKinds(Geometry({5}).Insert(0, 7, 0)), K{Kind::kBroadcast});
  EXPECT_EQ(ReadKinds(Geometry(Ints{}).Insert(0, 7, 0)), K{Kind::kBroadcast});
  EXPECT_EQ(ReadKinds(Geometry({5, 5}).Diagonal(0, 1)), (K{Kind::kReshape, Kind::kSlice}));
  EXPECT_EQ(ReadKinds(Geometry({3, 5, 5}).Diagonal(1, 2)), (K{Kind::kReshape, Kind::kSlice}));
  EXPECT_EQ(ReadKinds(Geometry({20}, {{4, 5}, {5, 1}, 0})), K{Kind::kReshape});
  EXPECT_EQ(ReadKinds(Geometry({12, 3}).Unfold(0, 4, 4)), (K{Kind::kReshape, Kind::kTranspose}));
}

TEST(ViewPlan, OnlyOverlapsGather) {
  const Geometry x({6, 8, 9});
  for (int64_t dim = 0; dim < 3; ++dim) {
    for (int64_t step : {2, 3, 5}) {
      EXPECT_FALSE(Gathers(PlanRead(x.base_dims, x.Unfold(dim, 2, step).view)));
      EXPECT_FALSE(Gathers(PlanWrite(x.base_dims, x.Unfold(dim, 2, step).view).base));
    }
    // Windows that overlap a little are slices side by side.
    EXPECT_FALSE(Gathers(PlanRead(x.base_dims, x.Unfold(dim, 3, 1).view)));
    EXPECT_TRUE(Gathers(PlanWrite(x.base_dims, x.Unfold(dim, 3, 1).view).base));
  }
  // stft's frames, and a convolution's patches
  EXPECT_FALSE(Gathers(PlanRead(Ints{2, 100}, Geometry({2, 100}).Unfold(1, 16, 4).view)));
  EXPECT_FALSE(Gathers(PlanRead(Ints{1, 9, 11}, Geometry({1, 9, 11}).Unfold(1, 3, 1).Unfold(2, 3, 1).view)));
  // Strides that do not divide one another.
  EXPECT_FALSE(Gathers(PlanRead(Ints{500}, View{{3, 4, 5}, {100, 13, 2}, 7})));
  EXPECT_FALSE(Gathers(PlanWrite(Ints{500}, View{{3, 4, 5}, {100, 13, 2}, 7}).base));
  // Long windows are gathered whole.
  std::vector<ViewStep> long_windows = PlanRead(Ints{1000}, Geometry({1000}).Unfold(0, 64, 1).view);
  ASSERT_TRUE(Gathers(long_windows));
  EXPECT_EQ(long_windows[0].window, 64);
}

TEST(ViewPlan, CommonWrites) {
  using K = std::vector<Kind>;
  const Geometry x({8, 6, 10, 4});
  auto base = [](const Geometry& g) { return Kinds(PlanWrite(g.base_dims, g.view).base); };
  auto update = [](const Geometry& g) { return Kinds(PlanWrite(g.base_dims, g.view).update); };
  EXPECT_EQ(base(x), K{});
  EXPECT_EQ(update(x), K{});
  EXPECT_EQ(base(x.Permute({0, 3, 1, 2})), K{});
  EXPECT_EQ(update(x.Permute({0, 3, 1, 2})), K{Kind::kTranspose});
  EXPECT_EQ(base(x.Slice(1, 2, 5)), K{Kind::kSlice});
  EXPECT_EQ(base(x.Select(1, 2)), K{Kind::kSlice});
  EXPECT_EQ(update(x.Select(1, 2)), K{Kind::kReshape});
  EXPECT_EQ(base(x.Slice(3, 0, 4, 3)), K{Kind::kSlice});                    // masked
  EXPECT_EQ(base(x.Slice(0, 1, 8, 2)), (K{Kind::kReshape, Kind::kSlice}));  // rows of two, updated in place
  EXPECT_EQ(PlanWrite(x.base_dims, x.Slice(0, 1, 8, 2).view).base.back().strides, Ints(5, 1));
  EXPECT_EQ(base(Geometry({5, 5}).Diagonal(0, 1)), (K{Kind::kReshape, Kind::kSlice}));
  EXPECT_THROW(PlanWrite(Ints{3}, View{{2}, {3}, 0}), BuildError);
}

}  // namespace
}  // namespace tpu::hlo
