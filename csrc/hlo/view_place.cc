// Views that begin at a place known when the program runs.
#include <algorithm>

#include "hlo/view.h"
#include "hlo/view_plan.h"

namespace tpu::hlo {
namespace {

using Kind = ViewStep::Kind;

// Hands out the starts of one slice after the other.
class Starts {
 public:
  Starts(Builder& b, Value all) : b_(b), all_(all) {}

  std::vector<Value> Next(size_t rank) {
    std::vector<Value> starts;
    for (size_t i = 0; i < rank; ++i, ++used_) {
      starts.push_back(b_.Reshape(b_.SliceDim(all_, 0, used_, used_ + 1), Ints{}));
    }
    return starts;
  }

 private:
  Builder& b_;
  Value all_;
  int64_t used_ = 0;
};

Value Rearrange(Builder& b, Value x, const ViewStep& step) {
  if (step.kind == Kind::kReshape) return b.Reshape(x, step.dims);
  if (step.kind == Kind::kTranspose) return b.Transpose(x, step.axes);
  return b.BroadcastInDim(x, step.dims, step.axes);
}

// `dims`, and the same elements as rows as long as the view's strides, where one divides the next: an array without
// axes of its own has them then.
std::vector<Ints> Shapes(std::span<const int64_t> dims, const View& view) {
  std::vector<Ints> shapes{Ints(dims.begin(), dims.end())};
  Ints strides = view.strides;
  std::sort(strides.rbegin(), strides.rend());
  Ints rows;
  int64_t rest = NumElements(dims);
  for (int64_t stride : strides) {
    if (stride <= 1 || stride >= rest || rest % stride != 0) continue;
    rows.push_back(rest / stride);
    rest = stride;
  }
  rows.push_back(rest);
  if (rows.size() > 1) shapes.push_back(std::move(rows));
  return shapes;
}

// Whether `steps` are slices without a step, one at least, and rearrangements of elements.
bool Moves(std::span<const ViewStep> steps) {
  bool slices = false;
  for (const ViewStep& step : steps) {
    if (step.kind == Kind::kPad || step.kind == Kind::kUnfold || step.kind == Kind::kGather) return false;
    if (step.kind != Kind::kSlice) continue;
    if (std::any_of(step.strides.begin(), step.strides.end(), [](int64_t s) { return s != 1; })) return false;
    slices = true;
  }
  return slices;
}

void Append(Ints& words, std::span<const int64_t> list) {
  words.push_back(static_cast<int64_t>(list.size()));
  words.insert(words.end(), list.begin(), list.end());
}

void AddSteps(std::span<const ViewStep> steps, ViewPlace& place) {
  for (const ViewStep& step : steps) {
    place.shape.push_back(static_cast<int64_t>(step.kind));
    Append(place.shape, step.dims);
    Append(place.shape, step.axes);
    if (step.kind == Kind::kSlice) place.starts.insert(place.starts.end(), step.starts.begin(), step.starts.end());
  }
}

bool Slices(const WritePlan& plan) {
  return Moves(plan.base) &&
         std::none_of(plan.update.begin(), plan.update.end(), [](const ViewStep& s) { return s.kind == Kind::kSlice; });
}

// The first of the shapes in which the view can be cut out by slices; empty: none.
Ints ShapeForRead(std::span<const int64_t> dims, const View& view) {
  for (const Ints& shape : Shapes(dims, view)) {
    if (Moves(PlanRead(shape, view))) return shape;
  }
  return {};
}

Ints ShapeForWrite(std::span<const int64_t> dims, const View& view) {
  for (const Ints& shape : Shapes(dims, view)) {
    if (Slices(PlanWrite(shape, view))) return shape;
  }
  return {};
}

}  // namespace

std::optional<ViewPlace> PlaceOf(std::span<const int64_t> dims, const View& view, bool for_write) {
  if (view.conjugate || view.negative || NumElements(view.sizes) == 0 || Extent(view) > NumElements(dims)) {
    return std::nullopt;
  }
  const Ints shape = for_write ? ShapeForWrite(dims, view) : ShapeForRead(dims, view);
  if (shape.empty()) return std::nullopt;
  ViewPlace place;
  Append(place.shape, shape);
  if (for_write) {
    const WritePlan plan = PlanWrite(shape, view);
    AddSteps(plan.base, place);
    AddSteps(plan.update, place);
  } else {
    AddSteps(PlanRead(shape, view), place);
  }
  return place;
}

Value ReadViewAt(Builder& b, Value base, const View& view, Value starts) {
  base = b.Reshape(base, ShapeForRead(base.dims(), view));
  Starts next(b, starts);
  for (const ViewStep& step : PlanRead(base.dims(), view)) {
    base = step.kind == Kind::kSlice ? b.DynamicSlice(base, next.Next(step.starts.size()), step.dims)
                                     : Rearrange(b, base, step);
  }
  return base;
}

Value WriteViewAt(Builder& b, Value base, const View& view, Value update, Value starts) {
  const Ints dims = base.dims();
  base = b.Reshape(base, ShapeForWrite(dims, view));
  const WritePlan plan = PlanWrite(base.dims(), view);
  Starts next(b, starts);
  std::vector<Value> kept;                 // what each step of the base is applied to
  std::vector<std::vector<Value>> begins;  // and where it slices
  for (const ViewStep& step : plan.base) {
    kept.push_back(base);
    begins.push_back(step.kind == Kind::kSlice ? next.Next(step.starts.size()) : std::vector<Value>());
    base = step.kind == Kind::kSlice ? b.DynamicSlice(base, begins.back(), step.dims) : Rearrange(b, base, step);
  }
  for (const ViewStep& step : plan.update) update = Rearrange(b, update, step);
  for (size_t i = plan.base.size(); i-- > 0;) {
    update = plan.base[i].kind == Kind::kSlice ? b.DynamicUpdateSlice(kept[i], update, begins[i])
                                               : b.Reshape(update, kept[i].dims());
  }
  return b.Reshape(update, dims);
}

}  // namespace tpu::hlo
