// ReadView and WriteView, compiled and run on the CPU plugin (TORCHTPU_CPU_PLUGIN), against plain loops over bytes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "hlo_view_geometries.h"
#include "pjrt/client.h"

namespace tpu::hlo {
namespace {

using Bytes = std::vector<uint8_t>;

struct HostArray {
  Type type;
  Bytes bytes;
};

// Any bits; but of small floats no NaNs, whose bits XLA does not keep.
HostArray RandomArray(DType dtype, const Ints& dims, uint32_t seed) {
  std::mt19937 random(seed);
  HostArray array{{dtype, dims}, Bytes(Count(dims) * ItemSize(dtype))};
  const uint32_t mask = IsBool(dtype) ? 1 : IsHalf(dtype) ? 0xBF : 0xFF;
  for (uint8_t& byte : array.bytes) byte = static_cast<uint8_t>(random() & mask);
  return array;
}

// The view's items of `bytes`, zeros past the end.
Bytes ReadBytes(Bytes bytes, const View& view, DType dtype) {
  const size_t item = ItemSize(dtype);
  bytes.resize(std::max(bytes.size(), Extent(view) * item), 0);
  Bytes result;
  ForEachIndex(view.sizes, [&](const Ints& index) {
    auto at = bytes.begin() + (view.offset + Dot(index, view.strides)) * item;
    result.insert(result.end(), at, at + item);
  });
  if (dtype == DType::kBool)
    std::replace_if(
        result.begin(), result.end(), [](uint8_t b) { return b != 0; }, 1);
  return result;
}

Bytes WriteBytes(Bytes bytes, const View& view, const HostArray& update, int64_t result_numel) {
  const size_t item = ItemSize(update.type.dtype);
  bytes.resize(result_numel * item, 0);
  if (IsBool(update.type.dtype))
    std::replace_if(
        bytes.begin(), bytes.end(), [](uint8_t b) { return b != 0; }, 1);
  const uint8_t* from = update.bytes.data();
  ForEachIndex(view.sizes, [&](const Ints& index) {
    std::memcpy(bytes.data() + (view.offset + Dot(index, view.strides)) * item, from, item);
    from += item;
  });
  return bytes;
}

class ViewRun : public testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("TORCHTPU_CPU_PLUGIN");
    if (path == nullptr) GTEST_SKIP() << "TORCHTPU_CPU_PLUGIN is not set";
    auto plugin = pjrt::Plugin::Load(path);
    ASSERT_TRUE(plugin.ok()) << plugin.status().message();
    auto client = pjrt::Client::Create(*plugin);
    ASSERT_TRUE(client.ok()) << client.status().message();
    client_ = std::move(*client);
  }
  void TearDown() override {
    client_.reset();
    EXPECT_EQ(pjrt::Buffer::LiveCount(), 0);
    EXPECT_EQ(pjrt::Client::LiveCount(), 0);
  }

  std::vector<HostArray> Run(const std::string& module, const std::vector<HostArray>& args) {
    auto program = client_->Compile(module, {});
    if (!program.ok()) throw std::runtime_error(program.status().message() + "\n" + module);
    const pjrt::Device& device = *client_->devices()[0];
    std::vector<pjrt::Buffer> buffers;
    std::vector<const pjrt::Buffer*> pointers;
    for (const HostArray& arg : args) {
      auto buffer =
          client_->FromHost(arg.bytes.data(), arg.type.dtype, arg.type.dims, device, pjrt::HostSemantics::kDuringCall);
      if (!buffer.ok()) throw std::runtime_error(buffer.status().message());
      buffers.push_back(std::move(*buffer));
    }
    for (const pjrt::Buffer& buffer : buffers) pointers.push_back(&buffer);
    auto outputs = (*program)->Execute(pointers, &device);
    if (!outputs.ok()) throw std::runtime_error(outputs.status().message());
    std::vector<HostArray> results;
    for (const pjrt::Buffer& output : *outputs) {
      HostArray result{{output.dtype(), Ints(output.dims().begin(), output.dims().end())},
                       Bytes(output.dense_size_bytes())};
      auto copied = output.ToHost(result.bytes.data(), result.bytes.size());
      if (!copied.ok() || !copied->Await().ok()) throw std::runtime_error("ToHost");
      results.push_back(std::move(result));
    }
    return results;
  }

  // Reads and writes the view of a base of g.base_dims and `base_type`; with and without a base.
  void Check(const Geometry& g, DType base_type, DType view_type) {
    SCOPED_TRACE(Show(g) + " " + std::string(Name(base_type)) + " as " + std::string(Name(view_type)));
    HostArray base = RandomArray(base_type, g.base_dims, 1), update = RandomArray(view_type, g.view.sizes, 2);
    int64_t numel = static_cast<int64_t>(base.bytes.size() / ItemSize(view_type));
    const bool writable = Extent(g.view) <= numel && !Repeats(g.view);
    const Ints result_dims = base_type == view_type ? g.base_dims : Ints{numel};

    Builder b;
    Value base_value = b.Parameter(base.type), update_value = b.Parameter(update.type);
    std::vector<Value> results = {ReadView(b, base_value, g.view, view_type)};
    if (writable) {
      results.push_back(WriteView(b, base_value, g.view, update_value, result_dims));
      results.push_back(WriteView(b, std::nullopt, g.view, update_value, result_dims));
    }
    std::vector<HostArray> outputs;
    ASSERT_NO_THROW(outputs = Run(b.Finish(results), {base, update}));
    EXPECT_EQ(outputs[0].type, (Type{view_type, g.view.sizes}));
    EXPECT_EQ(outputs[0].bytes, ReadBytes(base.bytes, g.view, view_type));
    if (!writable) return;
    EXPECT_EQ(outputs[1].type, (Type{view_type, result_dims}));
    EXPECT_EQ(outputs[1].bytes, WriteBytes(base.bytes, g.view, update, numel));
    EXPECT_EQ(outputs[2].type, (Type{view_type, result_dims}));
    EXPECT_EQ(outputs[2].bytes, WriteBytes({}, g.view, update, numel));
  }

  // Whether two of the view's elements are one.
  static bool Repeats(const View& view) {
    Ints seen;
    ForEachIndex(view.sizes, [&](const Ints& index) { seen.push_back(Dot(index, view.strides)); });
    std::sort(seen.begin(), seen.end());
    return std::adjacent_find(seen.begin(), seen.end()) != seen.end();
  }

  std::shared_ptr<pjrt::Client> client_;
};

TEST_F(ViewRun, NamedGeometries) {
  const Geometry x({4, 6, 5, 2});
  for (const Geometry& g : {
           x,
           x.Permute({0, 3, 1, 2}),
           x.Slice(1, 1, 6, 2).Slice(2, 0, 5, 3),
           x.Select(3, 1).Permute({2, 0, 1}),
           x.Slice(0, 1, 4, 2),
           Geometry({5, 1}).Expand(1, 7),
           Geometry({5, 5}).Diagonal(0, 1),
           Geometry({30}).Unfold(0, 8, 2),
           Geometry({40}).Unfold(0, 20, 1),
           Geometry({7, 6}).Unfold(0, 3, 1).Unfold(1, 3, 1),
           Geometry({500}, {{3, 4, 5}, {100, 13, 2}, 7}),
           Geometry({40}, {{4, 3}, {7, 6}, 3}),
           Geometry({40}, {{3, 3}, {5, 7}, 0}),
           Geometry({2, 60}, {{2, 3, 3}, {60, 8, 5}, 1}),        // gathered on the last axis
           Geometry({2, 60}, {{2, 2, 3, 2}, {60, 9, 7, 1}, 1}),  // with a window
           Geometry({3, 4}).Slice(0, 1, 1),
           Geometry(Ints{}),
           Geometry({0, 3}),
           Geometry({3}, {{}, {}, 2}),
           Geometry({3}, {{2, 4}, {4, 1}, 1}),  // past the end
       }) {
    Check(g, DType::kF32, DType::kF32);
  }
  Check(x.Slice(3, 1, 2), DType::kBool, DType::kBool);
  Check(x.Slice(2, 0, 5, 2), DType::kC64, DType::kC64);
  Check(Geometry({40}, {{4, 3}, {7, 6}, 3}), DType::kBool, DType::kBool);
}

TEST_F(ViewRun, RandomGeometries) {
  GeometryMaker maker(4);
  for (int i = 0; i < 60; ++i) Check(maker.Next(), DType::kI32, DType::kI32);
}

TEST_F(ViewRun, OtherElementTypes) {
  using enum DType;
  const View whole{{3, 2}, {2, 1}, 0}, part{{2, 2}, {3, 2}, 1};
  for (auto [from, to] : std::vector<std::pair<DType, DType>>{
           {kF32, kI32},    {kF32, kF64},  {kF64, kF32},  {kU8, kF32},   {kF32, kU8},   {kBool, kU8},
           {kU8, kBool},    {kBool, kI16}, {kI32, kBool}, {kC64, kF32},  {kF32, kC64},  {kC64, kI64},
           {kC64, kC128},   {kC128, kC64}, {kI8, kC64},   {kC64, kBF16}, {kBF16, kF16}, {kF8E4M3FN, kU8},
           {kI16, kF8E5M2}, {kU16, kU64},  {kC128, kBool}}) {
    for (const Ints& dims : {Ints{3, 4}, Ints{13}}) Check({dims, part}, from, to);
    Check({{2, 3, 5}, whole}, from, to);
    Check({{}, whole}, from, to);
  }
  // view_as_real, and one half of it
  Check(Geometry({3, 4}, {{3, 4, 2}, {8, 2, 1}, 0}), kC64, kF32);
  Check(Geometry({3, 4}, {{3, 4}, {8, 2}, 1}), kC64, kF32);
}

TEST_F(ViewRun, SmallFloats) {
  for (auto [from, to] :
       std::vector<std::pair<DType, DType>>{{DType::kF16, DType::kF16},
                                            {DType::kBF16, DType::kBF16},
                                            {DType::kF8E5M2, DType::kF8E5M2},
                                            {DType::kI16, DType::kBF16},
                                            {DType::kU8, DType::kF8E5M2}}) {  // any bits in what is not written
    Check(Geometry({300, 30}).Slice(1, 0, 30, 2), from, to);                  // masked
    Check(Geometry({300, 30}).Slice(0, 1, 300, 2), from, to);                 // updated in place
    Check(Geometry({9000}, {{40, 3}, {7, 6}, 3}), from, to);                  // scattered
    Check(Geometry({9000}, {{40, 3, 5}, {207, 50, 7}, 3}), from, to);         // cropped and padded
    Check(Geometry({9000}).Unfold(0, 64, 1), from, to);                       // gathered
  }
}

TEST_F(ViewRun, WriteGrowsAndShrinksTheBase) {
  HostArray base = RandomArray(DType::kI32, {2, 5}, 1), update = RandomArray(DType::kI32, {2, 2}, 2);
  const View view{{2, 2}, {3, 1}, 1}, none{{0}, {1}, 0};
  Builder b;
  Value x = b.Parameter(base.type), u = b.Parameter(update.type);
  std::vector<Value> results = {
      WriteView(b, x, view, u, Ints{4, 4}),
      WriteView(b, x, view, u, Ints{7}),
      WriteView(b, x, none, b.Zeros({DType::kI32, {0}}), Ints{3, 4}),
      WriteView(b, std::nullopt, none, b.Zeros({DType::kI32, {0}}), Ints{3}),
  };
  std::vector<HostArray> outputs = Run(b.Finish(results), {base, update});
  EXPECT_EQ(outputs[0].bytes, WriteBytes(base.bytes, view, update, 16));
  EXPECT_EQ(outputs[0].type.dims, (Ints{4, 4}));
  EXPECT_EQ(outputs[1].bytes, WriteBytes(base.bytes, view, update, 7));
  Bytes resized = base.bytes;
  resized.resize(48, 0);
  EXPECT_EQ(outputs[2].bytes, resized);
  EXPECT_EQ(outputs[3].bytes, Bytes(12, 0));
}

TEST_F(ViewRun, AWholeWriteDoesNotReadTheBase) {
  Builder b;
  Value x = b.Parameter({DType::kF32, {4, 6}}), u = b.Parameter({DType::kF32, {6, 4}});
  std::string text = b.Finish(std::vector<Value>{WriteView(b, x, View{{6, 4}, {1, 6}, 0}, u, Ints{4, 6})});
  EXPECT_NE(text.find("stablehlo.transpose"), std::string::npos) << text;
  EXPECT_EQ(text.find("stablehlo.dynamic_update_slice"), std::string::npos) << text;
  EXPECT_EQ(text.find("stablehlo.select"), std::string::npos) << text;
}

}  // namespace
}  // namespace tpu::hlo
